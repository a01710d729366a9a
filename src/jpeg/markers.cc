#include "jpeg/markers.h"

namespace forebay::jpeg {

using base::Code;
using base::fail;

Result<Marker> MarkerReader::next() {
  const size_t start = position_;
  if (start >= file_.size()) {
    return fail(Code::kCorrupt, "JPEG: byte {}: the file ends where a marker is due", start);
  }
  if (file_[start] != 0xFF) {
    return fail(Code::kCorrupt, "JPEG: byte {}: 0x{:02x} where a marker is due", start,
                file_[start]);
  }
  size_t at = start;
  while (at < file_.size() && file_[at] == 0xFF) ++at;  // fill bytes are legal
  if (at == file_.size() || file_[at] == 0) {
    return fail(Code::kCorrupt, "JPEG: byte {}: a marker without a code", start);
  }
  Marker marker{file_[at], start, {}};
  position_ = ++at;
  const bool alone = marker.code == 0x01 || (marker.code >= kRst0 && marker.code <= kEoi);
  if (alone) return marker;
  if (file_.size() - at < 2) {
    return fail(Code::kCorrupt, "JPEG: byte {}: the file ends inside marker 0x{:02x}", start,
                marker.code);
  }
  const size_t length = load_be16(file_, at);
  if (length < 2 || length > file_.size() - at) {
    return fail(Code::kCorrupt, "JPEG: byte {}: marker 0x{:02x} claims {} bytes, {} are left",
                start, marker.code, length, file_.size() - at);
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
