// Where bytes come from: the seam through which everything reads. An origin is the local file
// system, a web server or an object store (http/, s3/), one in memory, or one that fails on
// purpose. Writing is a file system's duty: io/file_system.h. Many reads at once: io/read_queue.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace forebay::io {

using base::Bytes;
using base::MutableBytes;
using base::Result;
using base::Status;

// What tells one version of a file from another.
struct Identity {
  uint64_t size = 0;
  int64_t modified_ns = 0;  // nanoseconds since 1970; 0 where the origin does not know it
  std::string etag = {};    // an object store's tag of the content; empty where there is none
  bool operator==(const Identity&) const = default;
};

// When a read shall be given up.
struct ReadOptions {
  std::optional<int64_t> deadline_ns = {};  // on the clock of io::monotonic_ns()
  std::stop_token stop = {};
};

// Whether to go on: kCancelled or kTimedOut where a read of the file `path` shall be given up now.
Status check_wanted(const std::string& path, const ReadOptions& options);

// When bytes are needed again, as far as their reader knows. A cache that has too little room keeps
// first what is needed soon.
enum class Again : uint8_t {
  kSoon,   // in the next epoch, or nobody knows
  kLater,  // not in the next epoch
};

// A run of a file's bytes, and the memory that receives them.
struct Range {
  uint64_t offset = 0;
  MutableBytes out = {};
  Again again = Again::kSoon;
};

// Of all ranges together.
uint64_t bytes_of(std::span<const Range> ranges);
// The same ranges, where those that go on at each other in the file and in memory are one, for
// whoever does not care when they are needed again.
std::vector<Range> joined(std::vector<Range> ranges);

// An open file for reading at any position. Any thread may call anything.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  // What the file was when it was opened.
  virtual const Identity& identity() const = 0;
  // Fills all of `out` with the bytes from `offset` on. Errors: kTruncated when the file ends
  // earlier, kTimedOut after the deadline, kCancelled when stop was requested, kUnavailable when
  // the other side is gone or refuses for now, kIo. None of them says that the bytes are bad.
  virtual Status read(uint64_t offset, MutableBytes out, const ReadOptions& options = {}) const = 0;
  // Begins to fill all ranges, which ascend and do not overlap. Calls `done` exactly once, in any
  // thread, possibly before this returns; the file and the memory must stay until then. A file
  // whose reads make a thread wait reads in the calling thread, like this default. A file that is
  // far away returns at once and keeps many reads in flight. Errors: like read().
  virtual void start(std::vector<Range> ranges, const ReadOptions& options,
                     std::function<void(Status)> done) const;
};

// ReadableFile::start(), and waits until it is done.
Status read_ranges(const ReadableFile& file, std::vector<Range> ranges,
                   const ReadOptions& options = {});

// What was exchanged with the servers of an origin since it was made, and how fast they are. All
// zero where nothing comes over a network.
struct Traffic {
  uint64_t requests = 0;        // sent, with those that were retries or hedges
  uint64_t retries = 0;         // requests among these that repeat one that failed
  uint64_t hedges = 0;          // requests among these that repeat one that was slow
  uint64_t bytes_received = 0;  // with headers, as far as libcurl counts them
  uint64_t bytes_sent = 0;
  double latency_s = 0;    // from sending a request to its first byte, lately; 0: not known yet
  double bytes_per_s = 0;  // received while anything was received, lately; 0: not known yet
  bool operator==(const Traffic&) const = default;
};

// Which copies of a file's bytes will do, where something between here and the origin holds some: a
// job's cache (cache/).
enum class Copies : uint8_t {
  kNone,  // the bytes are read from the origin, and not kept
  kAny,
  kAnew,  // copies that came before were damaged: the origin is asked, and its answer replaces them
};

// How a file is opened.
struct OpenOptions {
  // False for bytes that are not worth the page cache's memory: reads go around the cache where the
  // system can. They are fastest into a LargeBuffer, at an address that differs from the position
  // in the file by a multiple of kDirectAlignment.
  bool cached = true;
  // What the file is known to be, from a listing or because its content never changes. An origin
  // that is far away then asks nothing when it opens the file, and compares what is known with each
  // answer (kIo where they differ). Empty or zero parts of the identity are not known, except the
  // size. Other origins ignore it: the caller compares it with ReadableFile::identity().
  std::optional<Identity> known = {};
  Copies copies = Copies::kNone;
};

enum class FileType : uint8_t { kFile, kDirectory, kOther };

struct FileInfo {
  FileType type = FileType::kOther;
  uint64_t size = 0;
  // Nanoseconds since 1970.
  int64_t modified_ns = 0;
  // Bytes that the file takes on the disk, in whole file-system blocks.
  uint64_t allocated = 0;
};

struct DirEntry {
  std::string name;
  FileType type = FileType::kOther;  // the type of its target where the entry is a symbolic link
  // What stat() says of it, where the listing says that too.
  std::optional<FileInfo> info = {};
};

// Any thread may call anything. Paths are absolute or relative to the working directory.
class Origin {
 public:
  virtual ~Origin() = default;

  // Never waits for a writer of a FIFO or a device. Errors: kNotFound, kUnsupported for what is no
  // regular file, kIo.
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                                     const OpenOptions& options = {}) const = 0;
  // The whole file in as few questions as the origin needs. Errors: kTooBig when it has more than
  // `limit` bytes, those of open() and of reading.
  virtual Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const;
  // Whether the bytes at this path come over a network, where fewer bytes are worth more requests.
  virtual bool is_remote(const std::string& path) const;
  // How many ranges of a file one request may ask for, as far as is known by now. More may be given
  // to ReadableFile::start(), and cost more requests.
  virtual size_t ranges_max(const std::string& path) const;
  // Whether copies of what is read from this path may be kept for the coming epochs, so that it is
  // worth telling when the bytes are needed again (Range::again).
  virtual bool keeps_copies(const std::string& path) const;
  // Counted for all paths that the same servers answer for.
  virtual Traffic traffic(const std::string& path) const;
  // The entries of a directory, sorted by the bytes of their names.
  virtual Result<std::vector<DirEntry>> list(const std::string& path) const = 0;
  // Follows symbolic links; kNotFound when nothing is there.
  virtual Result<FileInfo> stat(const std::string& path) const = 0;
  // The absolute path without links and dots, as far as it exists. Two names of the same place have
  // the same canonical path.
  virtual std::string canonical(const std::string& path) const = 0;
};

// Whether an origin gave no answer, or not all of it. That says nothing about what is stored there,
// and the same question may have an answer later.
constexpr bool is_unanswered(base::Code code) {
  return code == base::Code::kUnavailable || code == base::Code::kTimedOut ||
         code == base::Code::kTruncated || code == base::Code::kCancelled;
}

// Whether the canonical paths of a place at the origin `a` and of one at `b` tell how the places
// lie to each other: the origins are the same, or both places are this machine's.
bool are_comparable(const Origin& a, const std::string& path_a, const Origin& b,
                    const std::string& path_b);

// Whether something is at `path`; an error where the origin does not tell.
Result<bool> exists(const Origin& origin, const std::string& path);
// The entries of a folder, and none where nothing is there: an object store knows no empty folder.
Result<std::vector<DirEntry>> list_if_there(const Origin& origin, const std::string& path);

// "a/b" and "c" give "a/b/c"; the directory of "a/b/c" is "a/b", that of "c" is ".".
std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);

}  // namespace forebay::io
