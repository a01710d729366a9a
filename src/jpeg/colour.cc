// Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/colour.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "jpeg/colour.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::CappedTag<uint8_t, 64>;
using D16 = hn::Repartition<int16_t, D8>;
using D32 = hn::Repartition<int32_t, D8>;
constexpr D8 d8;
constexpr D16 d16;
constexpr D32 d32;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;
constexpr size_t kBytes = hn::MaxLanes(d8);

// Bytes of a vector by their places' parity, each in 16 bits.
HWY_INLINE V16 even(V8 v) { return hn::And(hn::BitCast(d16, v), hn::Set(d16, 0xFF)); }
HWY_INLINE V16 odd(V8 v) {
  const hn::RebindToUnsigned<D16> du16;
  return hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, v)));
}
HWY_INLINE V8 join(V16 even_bytes, V16 odd_bytes) {
  return hn::BitCast(d8, hn::Or(even_bytes, hn::ShiftLeft<8>(odd_bytes)));
}

// 3 near + far, in 16 bits.
HWY_INLINE V16 weigh(V16 near, V16 far) { return hn::Add(hn::Add(hn::Add(near, near), near), far); }

template <int kShift>
HWY_INLINE V16 descale(V16 sum, int bias) {
  return hn::ShiftRight<kShift>(hn::Add(sum, hn::Set(d16, static_cast<int16_t>(bias))));
}

// Two rows of sums in turn: a0 b0 a1 b1 …, all below 256.
HWY_INLINE void store_alternating(V16 a_even, V16 a_odd, V16 b_even, V16 b_odd, uint8_t* out) {
  hn::StoreInterleaved2(join(a_even, a_odd), join(b_even, b_odd), d8, out);
}

void double_across_row(const uint8_t* in, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; i += kBytes) {
    const V8 left = hn::LoadU(d8, in + i - 1);
    const V8 here = hn::LoadU(d8, in + i);
    const V8 right = hn::LoadU(d8, in + i + 1);
    store_alternating(descale<2>(weigh(even(here), even(left)), 1),
                      descale<2>(weigh(odd(here), odd(left)), 1),
                      descale<2>(weigh(even(here), even(right)), 2),
                      descale<2>(weigh(odd(here), odd(right)), 2), out + 2 * i);
  }
}

void blend_down_row(const uint8_t* near, const uint8_t* far, size_t count, int bias, uint8_t* out) {
  for (size_t i = 0; i < count; i += kBytes) {
    const V8 a = hn::LoadU(d8, near + i);
    const V8 b = hn::LoadU(d8, far + i);
    hn::StoreU(
        join(descale<2>(weigh(even(a), even(b)), bias), descale<2>(weigh(odd(a), odd(b)), bias)),
        d8, out + i);
  }
}

void double_both_row(const uint8_t* near, const uint8_t* far, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; i += kBytes) {
    V16 sum[3][2];  // left, here, right; even and odd
    for (size_t k = 0; k < 3; ++k) {
      const V8 a = hn::LoadU(d8, near + i + k - 1);
      const V8 b = hn::LoadU(d8, far + i + k - 1);
      sum[k][0] = weigh(even(a), even(b));
      sum[k][1] = weigh(odd(a), odd(b));
    }
    store_alternating(descale<4>(weigh(sum[1][0], sum[0][0]), 8),
                      descale<4>(weigh(sum[1][1], sum[0][1]), 8),
                      descale<4>(weigh(sum[1][0], sum[2][0]), 7),
                      descale<4>(weigh(sum[1][1], sum[2][1]), 7), out + 2 * i);
  }
}

// jdcolor.c: factors of 2^16, what is above 1 or 2 added apart.
constexpr int16_t kRedOfCr = 26345;     // 1.40200 - 1
constexpr int16_t kBlueOfCb = -14942;   // 1.77200 - 2
constexpr int16_t kGreenOfCb = -22554;  // -0.34414
constexpr int16_t kGreenOfCr = 18734;   // -0.71414 + 1

HWY_INLINE V16 clamp(V16 v) { return hn::Min(hn::Max(v, hn::Zero(d16)), hn::Set(d16, 255)); }

// factor x / 2^16, rounded as libjpeg does.
HWY_INLINE V16 scale(V16 x, int16_t factor) {
  const V16 doubled = hn::MulHigh(hn::Add(x, x), hn::Set(d16, factor));
  return hn::ShiftRight<1>(hn::Add(doubled, hn::Set(d16, 1)));
}

template <bool kUpper>
HWY_INLINE V32 green_sum(V16 cb, V16 cr) {
  const V16 pairs = kUpper ? hn::InterleaveUpper(d16, cb, cr) : hn::InterleaveLower(d16, cb, cr);
  const V16 factors = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(kGreenOfCr) << 16 |
                                                        static_cast<uint16_t>(kGreenOfCb)));
  V32 odd_sum = hn::Zero(d32);
  const V32 sum = hn::ReorderWidenMulAccumulate(d32, pairs, factors, hn::Set(d32, 32768), odd_sum);
  return hn::ShiftRight<16>(hn::RearrangeToOddPlusEven(sum, odd_sum));
}

struct Rgb16 {
  V16 r, g, b;
};
HWY_INLINE Rgb16 convert(V16 y, V16 cb_raw, V16 cr_raw) {
  const V16 centre = hn::Set(d16, 128);
  const V16 cb = hn::Sub(cb_raw, centre);
  const V16 cr = hn::Sub(cr_raw, centre);
  const V16 green = hn::ReorderDemote2To(d16, green_sum<false>(cb, cr), green_sum<true>(cb, cr));
  return {clamp(hn::Add(hn::Add(y, cr), scale(cr, kRedOfCr))),
          clamp(hn::Add(hn::Sub(y, cr), green)),
          clamp(hn::Add(hn::Add(y, hn::Add(cb, cb)), scale(cb, kBlueOfCb)))};
}

struct Rgb8 {
  V8 r, g, b;
};
HWY_INLINE Rgb8 convert(V8 y, V8 cb, V8 cr) {
  const Rgb16 e = convert(even(y), even(cb), even(cr));
  const Rgb16 o = convert(odd(y), odd(cb), odd(cr));
  return {join(e.r, o.r), join(e.g, o.g), join(e.b, o.b)};
}

template <class Convert>
HWY_INLINE void convert_row(const uint8_t* const* in, size_t count, uint8_t* rgb, Convert to_rgb) {
  const auto load = [&](size_t at) HWY_ATTR {
    return to_rgb(hn::LoadU(d8, in[0] + at), hn::LoadU(d8, in[1] + at), hn::LoadU(d8, in[2] + at));
  };
  size_t at = 0;
  for (; at + kBytes <= count; at += kBytes) {
    const Rgb8 out = load(at);
    hn::StoreInterleaved3(out.r, out.g, out.b, d8, rgb + 3 * at);
  }
  if (at == count) return;
  alignas(64) uint8_t rest[3 * kBytes];
  const Rgb8 out = load(at);
  hn::StoreInterleaved3(out.r, out.g, out.b, d8, rest);
  __builtin_memcpy(rgb + 3 * at, rest, 3 * (count - at));
}

void ycc_row(const uint8_t* const* in, size_t count, uint8_t* rgb) {
  convert_row(in, count, rgb, [](V8 y, V8 cb, V8 cr) HWY_ATTR { return convert(y, cb, cr); });
}
void interleave_row(const uint8_t* const* in, size_t count, uint8_t* rgb) {
  convert_row(in, count, rgb, [](V8 r, V8 g, V8 b) HWY_ATTR { return Rgb8{r, g, b}; });
}

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::jpeg {

HWY_EXPORT(double_across_row);
HWY_EXPORT(blend_down_row);
HWY_EXPORT(double_both_row);
HWY_EXPORT(ycc_row);
HWY_EXPORT(interleave_row);

void double_across(const uint8_t* in, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(double_across_row)(in, count, out);
}

void blend_down(const uint8_t* near, const uint8_t* far, size_t count, int bias, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(blend_down_row)(near, far, count, bias, out);
}

void double_both(const uint8_t* near, const uint8_t* far, size_t count, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(double_both_row)(near, far, count, out);
}

void repeat_across(const uint8_t* in, size_t count, uint32_t times, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    for (uint32_t k = 0; k < times; ++k) *out++ = in[i];
  }
}

void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, size_t count,
                uint8_t* rgb) {
  const uint8_t* const in[3] = {y, cb, cr};
  HWY_DYNAMIC_DISPATCH(ycc_row)(in, count, rgb);
}

void interleave_rgb(const uint8_t* r, const uint8_t* g, const uint8_t* b, size_t count,
                    uint8_t* rgb) {
  const uint8_t* const in[3] = {r, g, b};
  HWY_DYNAMIC_DISPATCH(interleave_row)(in, count, rgb);
}

}  // namespace forebay::jpeg
#endif  // HWY_ONCE
