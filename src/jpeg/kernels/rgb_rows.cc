// Upsampling and colour conversion of whole rows. Compiled once for each instruction set by
// Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "jpeg/kernels/rgb_rows.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "base/pack-inl.h"
#include "jpeg/kernels/rgb_rows.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The factors of jdcolor.c. These are scaled by 2^14, which rounds to the same numbers for each of
// the 256 possible samples.
constexpr int16_t kRedOfCr = 22970;   // 1.40200
constexpr int16_t kBlueOfCb = 29033;  // 1.77200
// These are scaled by 2^16, because the products of both samples are summed before rounding.
constexpr int16_t kGreenOfCb = -22554;  // -0.34414
constexpr int16_t kGreenOfCr = 18734;   // -0.71414 + 1

// Uses vectors of at most `kVectorBytes` bytes: narrow images would leave most of a wider vector
// empty.
template <size_t kVectorBytes>
struct Rows {
  using D8 = hn::CappedTag<uint8_t, kVectorBytes>;
  using D16 = hn::Repartition<int16_t, D8>;
  using D32 = hn::Repartition<int32_t, D8>;
  using V8 = hn::Vec<D8>;
  using V16 = hn::Vec<D16>;
  using V32 = hn::Vec<D32>;
  static constexpr D8 d8{};
  static constexpr D16 d16{};
  static constexpr D32 d32{};
  static constexpr size_t kBytes = hn::MaxLanes(D8());

  // The bytes at even, or odd, places of a vector, each in 16 bits.
  static HWY_INLINE V16 even(V8 v) { return hn::And(hn::BitCast(d16, v), hn::Set(d16, 0xFF)); }
  static HWY_INLINE V16 odd(V8 v) {
    const hn::RebindToUnsigned<D16> du16;
    return hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, v)));
  }
  static HWY_INLINE V8 join(V16 even_bytes, V16 odd_bytes) {
    return hn::BitCast(d8, hn::Or(even_bytes, hn::ShiftLeft<8>(odd_bytes)));
  }

  // Returns 3 near + far in 16 bits.
  static HWY_INLINE V16 weigh(V16 near, V16 far) {
    return hn::Add(hn::Add(hn::Add(near, near), near), far);
  }

  template <int kShift>
  static HWY_INLINE V16 descale(V16 sum, int bias) {
    return hn::ShiftRight<kShift>(hn::Add(sum, hn::Set(d16, static_cast<int16_t>(bias))));
  }

  // Stores two rows of sums alternately: a0 b0 a1 b1 …, all below 256.
  static HWY_INLINE void store_alternating(V16 a_even, V16 a_odd, V16 b_even, V16 b_odd,
                                           uint8_t* out) {
    hn::StoreInterleaved2(join(a_even, a_odd), join(b_even, b_odd), d8, out);
  }

  // Makes twice as many samples as `count`: (3 near + far) / 4, with the far sample on alternating
  // sides.
  static HWY_INLINE void double_across(const uint8_t* in, size_t count, uint8_t* out) {
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

  // Makes a row between two rows: (3 near + far + bias) / 4.
  static HWY_INLINE void blend_down(const uint8_t* near, const uint8_t* far, size_t count, int bias,
                                    uint8_t* out) {
    for (size_t i = 0; i < count; i += kBytes) {
      const V8 a = hn::LoadU(d8, near + i);
      const V8 b = hn::LoadU(d8, far + i);
      hn::StoreU(
          join(descale<2>(weigh(even(a), even(b)), bias), descale<2>(weigh(odd(a), odd(b)), bias)),
          d8, out + i);
    }
  }

  // Doubles in both directions at once, with the rounding of libjpeg.
  static HWY_INLINE void double_both(const uint8_t* near, const uint8_t* far, size_t count,
                                     uint8_t* out) {
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

  template <bool kUpper>
  static HWY_INLINE V32 green_sum(V16 cb, V16 cr) {
    const V16 pairs = kUpper ? hn::InterleaveUpper(d16, cb, cr) : hn::InterleaveLower(d16, cb, cr);
    const V16 factors = hn::BitCast(d16, hn::Set(d32, static_cast<int32_t>(kGreenOfCr) << 16 |
                                                          static_cast<uint16_t>(kGreenOfCb)));
    V32 odd_sum = hn::Zero(d32);
    const V32 sum = hn::ReorderWidenMulAccumulate(d32, pairs, factors, hn::Zero(d32), odd_sum);
    return hn::ShiftRight<16>(
        hn::Add(hn::RearrangeToOddPlusEven(sum, odd_sum), hn::Set(d32, 32768)));
  }

  // Colours before clamping.
  struct Rgb16 {
    V16 r, g, b;
  };
  static HWY_INLINE Rgb16 convert(V16 y, V16 cb_raw, V16 cr_raw) {
    const V16 centre = hn::Set(d16, 128);
    const V16 cb = hn::Sub(cb_raw, centre);
    const V16 cr = hn::Sub(cr_raw, centre);
    const V16 green = hn::ReorderDemote2To(d16, green_sum<false>(cb, cr), green_sum<true>(cb, cr));
    return {hn::Add(y, hn::MulFixedPoint15(hn::Add(cr, cr), hn::Set(d16, kRedOfCr))),
            hn::Add(hn::Sub(y, cr), green),
            hn::Add(y, hn::MulFixedPoint15(hn::Add(cb, cb), hn::Set(d16, kBlueOfCb)))};
  }

  // The lower or upper half of the bytes of each block of a vector, in 16 bits each.
  template <bool kUpper>
  static HWY_INLINE V16 widen(V8 v) {
    const V8 zero = hn::Zero(d8);
    return hn::BitCast(
        d16, kUpper ? hn::InterleaveUpper(d8, v, zero) : hn::InterleaveLower(d8, v, zero));
  }
  static HWY_INLINE V8 narrow(V16 lower, V16 upper) {
    return base::HWY_NAMESPACE::pack(d8, lower, upper);
  }

  struct Rgb8 {
    V8 r, g, b;
  };
  template <bool kYcc>
  static HWY_INLINE Rgb8 pixels(const uint8_t* const* in, size_t at) {
    const V8 first = hn::LoadU(d8, in[0] + at);
    const V8 second = hn::LoadU(d8, in[1] + at);
    const V8 third = hn::LoadU(d8, in[2] + at);
    if constexpr (!kYcc) return {first, second, third};
    const Rgb16 l = convert(widen<false>(first), widen<false>(second), widen<false>(third));
    const Rgb16 u = convert(widen<true>(first), widen<true>(second), widen<true>(third));
    return {narrow(l.r, u.r), narrow(l.g, u.g), narrow(l.b, u.b)};
  }

  template <bool kYcc>
  static HWY_INLINE void interleave(const uint8_t* const* in, size_t count, uint8_t* rgb) {
    size_t at = 0;
    for (; at + kBytes <= count; at += kBytes) {
      const Rgb8 out = pixels<kYcc>(in, at);
      hn::StoreInterleaved3(out.r, out.g, out.b, d8, rgb + 3 * at);
    }
    if (at == count) return;
    alignas(64) uint8_t rest[3 * kBytes];
    const Rgb8 out = pixels<kYcc>(in, at);
    hn::StoreInterleaved3(out.r, out.g, out.b, d8, rest);
    __builtin_memcpy(rgb + 3 * at, rest, 3 * (count - at));
  }

  static HWY_INLINE void convert_row(const uint8_t* const* in, size_t count,
                                     const std::array<uint8_t*, 3>& out) {
    for (size_t at = 0; at < count; at += kBytes) {
      const Rgb8 rgb = pixels<true>(in, at);
      hn::StoreU(rgb.r, d8, out[0] + at);
      hn::StoreU(rgb.g, d8, out[1] + at);
      hn::StoreU(rgb.b, d8, out[2] + at);
    }
  }

  static HWY_INLINE void repeat_across(const uint8_t* in, size_t count, uint32_t times,
                                       uint8_t* out) {
    for (size_t i = 0; i < count; ++i) {
      for (uint32_t k = 0; k < times; ++k) *out++ = in[i];
    }
  }

  // Returns row `y` of the image for pixels from `left` on, upsampled when needed.
  static HWY_INLINE const uint8_t* upsample(const Channel& channel, uint32_t left, uint32_t width,
                                            uint32_t y) {
    const Plane& plane = channel.plane;
    const uint32_t offset = channel.first - plane.left;
    if (channel.across == 1 && channel.down == 1) return plane.row(y) + offset;
    uint8_t* const out = channel.upsampled;
    // Most divisions are by 1 or 2.
    const uint32_t near = channel.down == 1 ? y : channel.down == 2 ? y / 2 : y / channel.down;
    const uint8_t* const near_row = plane.row(near) + offset;
    if (!channel.fancy) {
      repeat_across(near_row, channel.samples, channel.across, out);
      return out + left % channel.across;
    }
    // The upper of two rows is nearer to the row above, the lower one to the row below.
    const bool upper = y % 2 == 0;
    const uint32_t far =
        upper ? near - (near > 0 ? 1 : 0) : (near + 1 < plane.height ? near + 1 : plane.height - 1);
    const uint8_t* const far_row = channel.down == 1 ? near_row : plane.row(far) + offset;
    if (channel.across == 1) {
      blend_down(near_row, far_row, width, upper ? 1 : 2, out);
      return out;
    }
    if (channel.down == 1) {
      double_across(near_row, channel.samples, out);
    } else {
      double_both(near_row, far_row, channel.samples, out);
    }
    return out + left % 2;
  }

  static HWY_INLINE base::PlanarRow upsample_all(const RowJob& job, uint32_t y) {
    base::PlanarRow rows;
    for (size_t c = 0; c < job.count; ++c) {
      rows[c] = upsample(job.channels[c], job.left, job.width, y);
    }
    for (size_t c = job.count; c < 3; ++c) rows[c] = rows[0];
    return rows;
  }

  static HWY_INLINE void make(const RowJob& job, uint32_t first, uint32_t end, uint8_t* rgb) {
    for (uint32_t y = first; y < end; ++y, rgb += size_t{job.width} * 3) {
      const base::PlanarRow rows = upsample_all(job, y);
      if (job.colour == Colour::kYcc) {
        interleave<true>(rows.data(), job.width, rgb);
      } else {
        interleave<false>(rows.data(), job.width, rgb);
      }
    }
  }

  static HWY_INLINE base::PlanarRow make_planar(const RowJob& job, uint32_t y) {
    const base::PlanarRow rows = upsample_all(job, y);
    if (job.colour != Colour::kYcc) return rows;
    convert_row(rows.data(), job.width, job.planar);
    return {job.planar[0], job.planar[1], job.planar[2]};
  }
};

// Images that are wide enough to fill the widest vectors are not narrow.
constexpr uint32_t kNarrow = 64;

base::PlanarRow make_planar_row(const RowJob& job, uint32_t y) {
  return job.width < kNarrow ? Rows<16>::make_planar(job, y) : Rows<64>::make_planar(job, y);
}

void make_rows(const RowJob& job, uint32_t first, uint32_t end, uint8_t* rgb) {
  if (job.width < kNarrow) {
    Rows<16>::make(job, first, end, rgb);
  } else {
    Rows<64>::make(job, first, end, rgb);
  }
}

}  // namespace
}  // namespace forebay::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::jpeg {

HWY_EXPORT(make_rows);
HWY_EXPORT(make_planar_row);

base::PlanarRow make_planar_row(const RowJob& job, uint32_t y) {
  return HWY_DYNAMIC_DISPATCH(make_planar_row)(job, y);
}

void make_rows(const RowJob& job, uint32_t first, uint32_t end, uint8_t* rgb) {
  HWY_DYNAMIC_DISPATCH(make_rows)(job, first, end, rgb);
}

}  // namespace forebay::jpeg
#endif  // HWY_ONCE
