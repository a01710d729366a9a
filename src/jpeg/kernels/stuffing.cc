#include "jpeg/kernels/stuffing.h"

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

namespace {

// Does the same as copy_unstuffed_avx512() with smaller vectors. Each vector is stored whole, but
// only the part up to its first 0xFF counts.
bool copy_vectors(base::Bytes bits, size_t* at, uint8_t** to) {
  const hn::CappedTag<uint8_t, kUnstuffedPadding> d;
  const size_t lanes = hn::Lanes(d);
  while (*at + lanes < bits.size()) {
    const auto data = hn::LoadU(d, bits.data() + *at);
    hn::StoreU(data, d, *to);
    const intptr_t first = hn::FindFirstTrue(d, hn::Eq(data, hn::Set(d, 0xFF)));
    if (first < 0) {
      *at += lanes;
      *to += lanes;
      continue;
    }
    *at += static_cast<size_t>(first);
    *to += first;
    if (bits[*at + 1] != 0) return true;
    *at += 2;
    *to += 1;
  }
  return false;
}

bool copy_most(base::Bytes bits, [[maybe_unused]] EntropyKernel kernel, size_t* at, uint8_t** to) {
#ifdef FOREBAY_X86_KERNELS
  if (kernel == EntropyKernel::kAvx512) {
    return copy_unstuffed_avx512(bits.data(), bits.size(), at, to);
  }
#endif
  return copy_vectors(bits, at, to);
}

}  // namespace

Unstuffed copy_unstuffed(base::Bytes bits, size_t at, EntropyKernel kernel, uint8_t* to) {
  const uint8_t* const begin = to;
  const auto bytes = [&] { return static_cast<size_t>(to - begin); };
  if (copy_most(bits, kernel, &at, &to)) return {at, bytes()};
  for (; at + 1 < bits.size(); ++at) {
    const bool mark = bits[at] == 0xFF;
    if (mark && bits[at + 1] != 0) return {at, bytes()};
    *to++ = bits[at];
    if (mark) ++at;
  }
  return {bits.size(), bytes()};
}

}  // namespace forebay::jpeg
