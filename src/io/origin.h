// Where bytes come from: the interface through which everything is read. An origin is the local
// file system, a web server or an object store (http/, s3/), or one for tests, in memory or failing
// on purpose. Writing is in io/file_system.h, and many reads at once in io/read_queue.h.
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

// Distinguishes one version of a file from another.
struct Identity {
  uint64_t size = 0;
  int64_t modified_ns = 0;  // nanoseconds since 1970; 0 if the origin does not know it
  std::string etag = {};    // an object store's tag of the content; empty if there is none
  bool operator==(const Identity&) const = default;
};

// When to give up a read.
struct ReadOptions {
  std::optional<int64_t> deadline_ns = {};  // on the clock of io::monotonic_ns()
  std::stop_token stop = {};
};

// Returns ok if a read of the file `path` should go on, else kCancelled or kTimedOut.
Status check_wanted(const std::string& path, const ReadOptions& options);

// When bytes are needed again, as far as their reader knows. A cache with too little room prefers
// bytes that are needed soon.
enum class Again : uint8_t {
  kSoon,   // in the next epoch, or it is not known
  kLater,  // not in the next epoch
};

// A run of a file's bytes, and the memory that receives them.
struct Range {
  uint64_t offset = 0;
  MutableBytes out = {};
  Again again = Again::kSoon;
};

// The number of bytes in all ranges together.
uint64_t bytes_of(std::span<const Range> ranges);
// Merges ranges that are adjacent both in the file and in memory. A merged range has the `again` of
// its first part.
std::vector<Range> joined(std::vector<Range> ranges);

// An open file for reading at any position. Any thread may call anything.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  // The file's identity when it was opened.
  virtual const Identity& identity() const = 0;
  // Fills all of `out` with the bytes from `offset` on. Errors: kTruncated when the file ends
  // earlier, kTimedOut after the deadline, kCancelled when stop was requested, kUnavailable when
  // the other side is gone or refuses for now, kIo. None of them means that the file's bytes are
  // damaged.
  virtual Status read(uint64_t offset, MutableBytes out, const ReadOptions& options = {}) const = 0;
  // Starts to fill all ranges, which ascend and do not overlap. Calls `done` exactly once, in any
  // thread, possibly before this returns; the file and the memory must stay until then. A file with
  // blocking reads reads in the calling thread, as this default does. A remote file returns at once
  // and keeps many reads in flight. Errors: those of read().
  virtual void start(std::vector<Range> ranges, const ReadOptions& options,
                     std::function<void(Status)> done) const;
};

// Calls ReadableFile::start() and waits until it is done.
Status read_ranges(const ReadableFile& file, std::vector<Range> ranges,
                   const ReadOptions& options = {});

// The traffic with an origin's servers since the origin was made, and their speed. All zero if
// nothing comes over a network.
struct Traffic {
  uint64_t requests = 0;        // sent, including retries and hedges
  uint64_t retries = 0;         // requests that repeat a failed one
  uint64_t hedges = 0;          // requests that repeat a slow one
  uint64_t bytes_received = 0;  // with headers, as far as libcurl counts them
  uint64_t bytes_sent = 0;
  double latency_s = 0;    // recently, from sending a request to its first byte; 0: not known yet
  double bytes_per_s = 0;  // recently, while anything was received; 0: not known yet
  bool operator==(const Traffic&) const = default;
};

// Which copies of a file's bytes the reader accepts, if a job's cache (cache/) between the reader
// and the origin holds some.
enum class Copies : uint8_t {
  kNone,  // none: the bytes are read from the origin, and not kept
  kAny,
  kAnew,  // earlier copies were damaged: the bytes are read from the origin and replace the copies
};

// How a file is opened.
struct OpenOptions {
  // False for bytes that are not worth the page cache's memory: reads bypass the page cache if the
  // system can. They are fastest into a LargeBuffer, at an address that differs from the file
  // offset by a multiple of kDirectAlignment.
  bool cached = true;
  // The file's identity, if it is known from a listing or because the content never changes. A
  // remote origin then opens the file without a request, and compares the identity with each answer
  // (kIo if they differ). Empty or zero parts of the identity are unknown, except the size. Other
  // origins ignore it: the caller compares it with ReadableFile::identity().
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
  FileType type = FileType::kOther;  // of its target if the entry is a symbolic link
  // The result of stat(), if the listing has it.
  std::optional<FileInfo> info = {};
};

// Any thread may call anything. Paths are absolute or relative to the working directory.
class Origin {
 public:
  virtual ~Origin() = default;

  // Never waits for a writer of a FIFO or for a device. Errors: kNotFound, kUnsupported for
  // anything but a regular file, kIo.
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                                     const OpenOptions& options = {}) const = 0;
  // Reads the whole file with as few requests as the origin needs. Errors: kTooBig if it has more
  // than `limit` bytes, those of open() and of ReadableFile::read().
  virtual Result<base::ByteVector> read_whole(const std::string& path, uint64_t limit) const;
  // Whether the bytes at this path come over a network, where fewer bytes are worth more requests.
  virtual bool is_remote(const std::string& path) const;
  // How many ranges of a file one request may ask for, as far as is known by now.
  // ReadableFile::start() takes more, but they cost more requests.
  virtual size_t ranges_max(const std::string& path) const;
  // Whether copies of bytes that are read from this path may be kept for later epochs, so that it
  // is worth telling when the bytes are needed again (Range::again).
  virtual bool keeps_copies(const std::string& path) const;
  // The traffic for all paths that the same servers have.
  virtual Traffic traffic(const std::string& path) const;
  // The entries of a directory, sorted by the bytes of their names.
  virtual Result<std::vector<DirEntry>> list(const std::string& path) const = 0;
  // Follows symbolic links; kNotFound when nothing is there.
  virtual Result<FileInfo> stat(const std::string& path) const = 0;
  // The absolute path without links and dots, as far as it exists. Two names of the same place have
  // the same canonical path.
  virtual std::string canonical(const std::string& path) const = 0;
};

// Whether an origin gave no answer, or not a whole one. This says nothing about the data that is
// stored there, and the same request may succeed later.
constexpr bool is_unanswered(base::Code code) {
  return code == base::Code::kUnavailable || code == base::Code::kTimedOut ||
         code == base::Code::kTruncated || code == base::Code::kCancelled;
}

// Whether the canonical paths of `path_a` at `a` and `path_b` at `b` can be compared, for example
// to tell whether one folder is inside the other: the origins are the same, or both paths are on
// this machine.
bool are_comparable(const Origin& a, const std::string& path_a, const Origin& b,
                    const std::string& path_b);

// Whether something is at `path`; an error if the origin does not tell.
Result<bool> exists(const Origin& origin, const std::string& path);
// The entries of a folder; none if there is no folder, because an object store has no empty
// folders.
Result<std::vector<DirEntry>> list_if_there(const Origin& origin, const std::string& path);

// "a/b" and "c" give "a/b/c"; the directory of "a/b/c" is "a/b", that of "c" is ".".
std::string join_path(std::string_view directory, std::string_view name);
std::string parent_path(std::string_view path);

}  // namespace forebay::io
