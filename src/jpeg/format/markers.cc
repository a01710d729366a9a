#include "jpeg/format/markers.h"

namespace forebay::jpeg {

using base::Code;
using base::fail;

// Moves to the position after the code of the next marker. Any number of 0xFF before a code is
// legal.
Result<uint8_t> MarkerReader::next_code() {
  const size_t start = position_;
  size_t at = start;
  while (at < file_.size()) {
    const void* const found = std::memchr(file_.data() + at, 0xFF, file_.size() - at);
    if (found == nullptr) break;
    const auto mark = static_cast<size_t>(static_cast<const uint8_t*>(found) - file_.data());
    stray_ |= mark != at;
    for (at = mark; at < file_.size() && file_[at] == 0xFF;) ++at;
    if (at == file_.size()) break;
    const uint8_t code = file_[at++];
    position_ = at;
    if (code != 0) return code;
    stray_ = true;
  }
  return fail(Code::kCorrupt, "JPEG: byte {}: the file ends where a marker should begin", start);
}

Result<Marker> MarkerReader::next() {
  const size_t start = position_;
  ASSIGN_OR_RETURN(const uint8_t code, next_code());
  Marker marker{code, start, {}};
  const bool alone = code == 0x01 || (code >= kRst0 && code <= kEoi);
  if (alone) return marker;
  const size_t at = position_;
  if (file_.size() - at < 2) {
    return fail(Code::kCorrupt, "JPEG: byte {}: the file ends inside marker 0x{:02x}", start, code);
  }
  const size_t length = load_be16(file_, at);
  if (length < 2 && is_metadata(code)) {
    stray_ = true;
    position_ = at + 2;
    return marker;
  }
  if (length < 2 || length > file_.size() - at) {
    return fail(Code::kCorrupt, "JPEG: byte {}: marker 0x{:02x} claims {} bytes, but {} are left",
                start, code, length, file_.size() - at);
  }
  marker.payload = file_.subspan(at + 2, length - 2);
  position_ = at + length;
  return marker;
}

void MarkerReader::skip_scan() {
  while (position_ < file_.size()) {
    const void* found = std::memchr(file_.data() + position_, 0xFF, file_.size() - position_);
    if (found == nullptr) break;
    position_ = static_cast<size_t>(static_cast<const uint8_t*>(found) - file_.data());
    if (position_ + 1 >= file_.size()) break;
    const uint8_t code = file_[position_ + 1];
    if (code == 0xFF) {
      ++position_;
    } else if (code == 0 || (code >= kRst0 && code <= kRst7)) {
      position_ += 2;
    } else {
      return;
    }
  }
  position_ = file_.size();
}

}  // namespace forebay::jpeg
