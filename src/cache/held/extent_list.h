// A file that lists the extents held in a folder, updated with every change, so that another
// process can use them after this one was killed. Nothing is synced, so the list may differ from
// the disk's content; the bytes' checksums detect that.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "io/file_system.h"

namespace forebay::cache {

using base::Result;
using base::Status;
using FileId = base::Sha256;  // of the file's target, which has its path and identity

// Ranges are kept in extents, which are cut at multiples of this.
inline constexpr uint64_t kExtentBytes = 256u << 10;
// An extent is cut at multiples of this, the block size of most file systems, into parts with a
// checksum each, so that extents can be cut between blocks without reading them. A part is read and
// checked as a whole.
inline constexpr uint64_t kCheckBytes = 4096;

// The number of checksums of an extent.
constexpr uint64_t checks_of(uint64_t offset, uint64_t length) {
  return length == 0 ? 0 : (offset + length - 1) / kCheckBytes - offset / kCheckBytes + 1;
}

// The checksums of an extent with these bytes.
std::vector<uint32_t> checksums_of(uint64_t offset, base::Bytes bytes);

// The most room that a range of this length takes, in bytes.
uint64_t room_for(uint64_t length);

// The blocks that have bytes of [offset, offset + length), which lies in one extent, as a bit mask:
// bit 0 is the block at the last multiple of kExtentBytes up to `offset`.
constexpr uint64_t blocks_in_extent(uint64_t offset, uint64_t length) {
  static_assert(kExtentBytes / kCheckBytes == 64);
  const uint64_t begin = offset % kExtentBytes / kCheckBytes;
  return ~uint64_t{0} >> (64 - checks_of(offset, length)) << begin;
}

// One thread at a time may use it.
class ExtentList {
 public:
  struct Entry {
    FileId file{};
    uint64_t offset = 0;
    uint32_t length = 0;                 // 0: nothing is held at the offset any more
    std::vector<uint32_t> crc32cs = {};  // one for each part
    bool operator==(const Entry&) const = default;
  };

  // The entries of a list, in the order in which they were added, up to the first damaged one.
  // Empty if there is no list or it cannot be read.
  static std::vector<Entry> read(const std::string& path);
  // Begins a list with these entries, which replaces an older list at the path atomically. Errors:
  // kNoSpace, kIo.
  static Result<std::unique_ptr<ExtentList>> begin(const std::string& path,
                                                   std::span<const Entry> entries);
  // Errors: kNoSpace, kIo; then the list may end in the middle of the entry.
  Status add(const Entry& entry);
  // The list's size, including entries that later ones replace.
  uint64_t bytes() const { return bytes_; }

 private:
  ExtentList(std::unique_ptr<io::WritableFile> file, uint64_t bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  const std::unique_ptr<io::WritableFile> file_;
  uint64_t bytes_;
};

}  // namespace forebay::cache
