// What a folder of the store holds, written down as it changes, so that another process can go on
// with it after this one was killed. Nothing is synced: what stands here may be more or other than
// what the disk has, and the bytes' checksums find that.
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
using FileId = base::Sha256;  // of a file's name and of what it is known to be

// Ranges are kept in extents that end at multiples of this.
inline constexpr uint64_t kExtentBytes = 256u << 10;
// An extent has a checksum of each part of it that ends at a multiple of this, the block of most
// file systems: extents are cut between blocks without reading them. A part is read and checked as
// a whole.
inline constexpr uint64_t kCheckBytes = 4096;

// How many checksums an extent has.
constexpr uint64_t checks_of(uint64_t offset, uint64_t length) {
  return length == 0 ? 0 : (offset + length - 1) / kCheckBytes - offset / kCheckBytes + 1;
}

// The blocks that have bytes of [offset, offset + length), which lies in one extent, as bits: bit 0
// is the block at the last multiple of kExtentBytes.
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
    std::vector<uint32_t> crc32cs = {};  // of each part
    bool operator==(const Entry&) const = default;
  };

  // The entries of a list, in the order in which they were added, up to the first that is not
  // whole. Nothing where there is no list, or none that can be read.
  static std::vector<Entry> read(const std::string& path);
  // Begins a list with these entries; an older one at the path is replaced at once. Errors:
  // kNoSpace, kIo.
  static Result<std::unique_ptr<ExtentList>> begin(const std::string& path,
                                                   std::span<const Entry> entries);
  // Errors: kNoSpace, kIo; the list may end within the entry then.
  Status add(const Entry& entry);
  // Also of entries that others have overtaken.
  uint64_t bytes() const { return bytes_; }

 private:
  ExtentList(std::unique_ptr<io::WritableFile> file, uint64_t bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  const std::unique_ptr<io::WritableFile> file_;
  uint64_t bytes_;
};

}  // namespace forebay::cache
