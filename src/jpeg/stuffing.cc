#include "jpeg/stuffing.h"

#include <hwy/highway.h>

namespace forebay::jpeg {

namespace hn = hwy::HWY_NAMESPACE;

size_t find_marker(base::Bytes bits, size_t at) {
  while (at + 1 < bits.size()) {
    const auto* const mark =
        static_cast<const uint8_t*>(std::memchr(bits.data() + at, 0xFF, bits.size() - 1 - at));
    if (mark == nullptr) break;
    at = static_cast<size_t>(mark - bits.data());
    if (bits[at + 1] != 0) return at;
    at += 2;
  }
  return bits.size();
}

// A vector is copied whole, but counts up to its first 0xFF only.
Unstuffed copy_unstuffed(base::Bytes bits, size_t at, uint8_t* to) {
  const hn::CappedTag<uint8_t, kUnstuffedPadding> d;
  const size_t lanes = hn::Lanes(d);
  const uint8_t* const begin = to;
  const auto bytes = [&] { return static_cast<size_t>(to - begin); };
  while (at + lanes < bits.size()) {
    const auto data = hn::LoadU(d, bits.data() + at);
    hn::StoreU(data, d, to);
    const intptr_t first = hn::FindFirstTrue(d, hn::Eq(data, hn::Set(d, 0xFF)));
    if (first < 0) {
      at += lanes;
      to += lanes;
      continue;
    }
    const auto before = static_cast<size_t>(first);
    if (bits[at + before + 1] != 0) return {at + before, bytes() + before};
    at += before + 2;
    to += before + 1;
  }
  for (; at + 1 < bits.size(); ++at) {
    const bool mark = bits[at] == 0xFF;
    if (mark && bits[at + 1] != 0) return {at, bytes()};
    *to++ = bits[at];
    if (mark) ++at;
  }
  return {bits.size(), bytes()};
}

}  // namespace forebay::jpeg
