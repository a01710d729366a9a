#include "io/blocking_file.h"

#include <algorithm>

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

// A piece of this size takes a few milliseconds. Pieces end at multiples of it, so that reads
// around the page cache stay in whole blocks.
constexpr uint64_t kPieceBytes = 8u << 20;

}  // namespace

Status BlockingFile::read(uint64_t offset, MutableBytes out, const ReadOptions& options) const {
  while (!out.empty()) {
    RETURN_IF_ERROR(check_wanted(path_, options));
    const uint64_t piece = std::min<uint64_t>(out.size(), kPieceBytes - offset % kPieceBytes);
    ASSIGN_OR_RETURN(const size_t got, read_some(offset, out.first(piece)));
    if (got == 0) {
      return fail(Code::kTruncated,
                  "{}: truncated: the file ends at byte {}, and {} more were expected", path_,
                  offset, out.size());
    }
    offset += got;
    out = out.subspan(got);
  }
  return {};
}

LoadedFile::LoadedFile(std::string path, Bytes data, uint64_t size)
    : BlockingFile(std::move(path), {.size = size}), data_(data) {}

Result<size_t> LoadedFile::read_some(uint64_t offset, MutableBytes out) const {
  if (offset >= data_.size()) return size_t{0};
  const size_t length = std::min<size_t>(out.size(), data_.size() - offset);
  std::copy_n(data_.begin() + static_cast<ptrdiff_t>(offset), length, out.begin());
  return length;
}

}  // namespace forebay::io
