// The steps of filter.h. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/augment/filter.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "image/augment/filter.h"
#include "image/transform/distributions.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors for the same pixels; a row has room for whole vectors.
using DF = hn::CappedTag<float, 16>;
using D32 = hn::RebindToSigned<DF>;
using D16 = hn::Rebind<int16_t, DF>;
using D8 = hn::Rebind<uint8_t, DF>;
constexpr DF df;
constexpr D32 d32;
constexpr D16 d16;
constexpr D8 d8;

HWY_INLINE auto load16(const uint8_t* from) { return hn::PromoteTo(d16, hn::LoadU(d8, from)); }

// Makes a row except its first and last pixel. `sums` has room for the row.
void sharpen_row(const std::array<const uint8_t*, 3>& rows, size_t width, float rest, int16_t* sums,
                 uint8_t* to) {
  const auto by = hn::Set(df, rest);
  const hn::RebindToUnsigned<D16> du16;
  for (size_t x = 0; x < width; x += hn::Lanes(df)) {
    const auto sum =
        hn::Add(hn::Add(load16(rows[0] + x), load16(rows[1] + x)), load16(rows[2] + x));
    hn::StoreU(sum, d16, sums + x);
  }
  for (size_t x = 1; x + 1 < width; x += hn::Lanes(df)) {
    // The weights are eight ones around a five, thirteen in all; the result is rounded to the
    // nearest whole number.
    const auto own16 = load16(rows[1] + x);
    auto sum = hn::Add(hn::Add(hn::LoadU(d16, sums + x - 1), hn::LoadU(d16, sums + x)),
                       hn::LoadU(d16, sums + x + 1));
    sum = hn::Add(sum, hn::ShiftLeft<2>(own16));
    const auto doubled = hn::BitCast(du16, hn::Add(hn::Add(sum, sum), hn::Set(d16, 13)));
    const auto blurred16 =
        hn::BitCast(d16, hn::ShiftRight<4>(hn::MulHigh(doubled, hn::Set(du16, 40330))));
    const auto own = hn::ConvertTo(df, hn::PromoteTo(d32, own16));
    const auto away = hn::ConvertTo(df, hn::PromoteTo(d32, hn::Sub(blurred16, own16)));
    const auto made = hn::MulAdd(away, by, own);
    const auto byte = hn::Min(hn::Max(made, hn::Zero(df)), hn::Set(df, 255));
    const auto out = hn::DemoteTo(d8, hn::ConvertTo(d32, byte));
    if (x + hn::Lanes(df) < width) {
      hn::StoreU(out, d8, to + x);
    } else {
      hn::BlendedStore(out, hn::FirstN(d8, width - 1 - x), d8, to + x);
    }
  }
}

using DW = hn::CappedTag<int16_t, 32>;
using DW32 = hn::RepartitionToWide<DW>;
using DW8 = hn::Rebind<uint8_t, DW>;
constexpr DW dw;
constexpr DW32 dw32;
constexpr DW8 dw8;
using VW = hn::Vec<DW>;

// Sums of the products of pairs of numbers with pairs of weights. Machines differ in which lanes
// hold the parts of a sum.
struct PairSums {
  hn::Vec<DW32> sum;
  hn::Vec<DW32> rest;

  HWY_INLINE void add(VW pairs, VW weights) {
    sum = hn::ReorderWidenMulAccumulate(dw32, pairs, weights, sum, rest);
  }
  // The sums without their last `kBits` bits, rounded.
  template <int kBits>
  HWY_INLINE hn::Vec<DW32> rounded() const {
    const auto total = hn::RearrangeToOddPlusEven(sum, rest);
    return hn::ShiftRight<kBits>(hn::Add(total, hn::Set(dw32, 1 << (kBits - 1))));
  }
};

// Sums for a vector of pixels. Interleaving and demotion cancel each other out, because both work
// in blocks of 128 bits.
struct Sums {
  PairSums low;
  PairSums high;

  HWY_INLINE void add(VW a, VW b, VW weights) {
    low.add(hn::InterleaveLower(a, b), weights);
    high.add(hn::InterleaveUpper(dw, a, b), weights);
  }
  template <int kBits>
  HWY_INLINE VW rounded() const {
    return hn::ReorderDemote2To(dw, low.rounded<kBits>(), high.rounded<kBits>());
  }
};

HWY_INLINE Sums no_sums() {
  const auto zero = hn::Zero(dw32);
  return {{zero, zero}, {zero, zero}};
}

// Returns two weights in every 32 bits, with 0 after the last weight.
HWY_INLINE VW pair_of(std::span<const int16_t> weights, size_t at) {
  const auto first = static_cast<uint16_t>(weights[at]);
  const auto second = static_cast<uint16_t>(at + 1 < weights.size() ? weights[at + 1] : 0);
  return hn::BitCast(dw, hn::Set(hn::RebindToUnsigned<DW32>(), first | uint32_t{second} << 16));
}

// The fractional bits that sums of rows keep. The sum of two such numbers fits into 16 bits.
constexpr int kKept = 6;

// Returns weighted sums: the two numbers at the same distance on both sides are added, then
// multiplied by the weight of that distance. at_both(distance) returns a vector of such sums of
// two.
template <int kBits, class AtBoth>
HWY_INLINE VW blurred(std::span<const int16_t> weights, VW middle, const AtBoth& at_both) {
  Sums sums = no_sums();
  const VW nearest = weights.size() > 1 ? at_both(1) : middle;
  sums.add(middle, nearest, pair_of(weights, 0));
  for (size_t i = 2; i < weights.size(); i += 2) {
    const VW first = at_both(i);
    const VW second = i + 1 < weights.size() ? at_both(i + 1) : first;
    sums.add(first, second, pair_of(weights, i));
  }
  return sums.rounded<kBits>();
}

// There are 2 * weights.size() - 1 `rows`.
void blur_down(std::span<const uint8_t* const> rows, std::span<const int16_t> weights, size_t width,
               int16_t* to) {
  const uint8_t* const* const middle = rows.data() + weights.size() - 1;
  for (size_t x = 0; x < width; x += hn::Lanes(dw)) {
    const auto at = [&](ptrdiff_t away) {
      return hn::PromoteTo(dw, hn::LoadU(dw8, middle[away] + x));
    };
    const auto at_both = [&](size_t distance) {
      const auto away = static_cast<ptrdiff_t>(distance);
      return hn::Add(at(-away), at(away));
    };
    hn::StoreU(blurred<kBlurBits - kKept>(weights, at(0), at_both), dw, to + x);
  }
}

// `from` has weights.size() - 1 numbers before the first pixel and after the last one.
void blur_across(const int16_t* from, std::span<const int16_t> weights, size_t width, uint8_t* to) {
  for (size_t x = 0; x < width; x += hn::Lanes(dw)) {
    const auto at_both = [&](size_t distance) {
      return hn::Add(hn::LoadU(dw, from + x - distance), hn::LoadU(dw, from + x + distance));
    };
    const VW middle = hn::LoadU(dw, from + x);
    hn::StoreU(hn::DemoteTo(dw8, blurred<kBlurBits + kKept>(weights, middle, at_both)), dw8,
               to + x);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(sharpen_row);
HWY_EXPORT(blur_down);
HWY_EXPORT(blur_across);

namespace {

// Returns the pixel that the mirrored picture shows at `at`, which may lie outside.
uint32_t mirrored(int64_t at, uint32_t side) {
  if (at < 0) return static_cast<uint32_t>(-at);
  if (at >= side) return static_cast<uint32_t>(2 * (int64_t{side} - 1) - at);
  return static_cast<uint32_t>(at);
}

}  // namespace

void sharpen(const Picture& from, double factor, Picture* to) {
  *to = from;
  const Size size = from.size();
  if (size.width <= 2 || size.height <= 2) return;
  const auto rest = static_cast<float>(1 - factor);
  std::vector<int16_t> sums(from.stride() + base::kPlanarPadding);
  for (size_t channel = 0; channel < 3; ++channel) {
    for (uint32_t y = 1; y + 1 < size.height; ++y) {
      HWY_DYNAMIC_DISPATCH(sharpen_row)
      ({from.row(channel, y - 1), from.row(channel, y), from.row(channel, y + 1)}, size.width, rest,
       sums.data(), to->row(channel, y));
    }
  }
}

std::vector<int16_t> blur_weights(uint32_t length, double sigma) {
  FOREBAY_CHECK(length % 2 == 1 && sigma > 0);
  std::vector<double> exact(length / 2 + 1);
  double total = 0;
  for (size_t away = 0; away < exact.size(); ++away) {
    const double deviations = static_cast<double>(away) / sigma;
    exact[away] = exact_exp(std::max(-deviations * deviations / 2, -700.0));
    total += exact[away] * (away == 0 ? 1 : 2);
  }
  // The sums of weights from the end on are rounded, not the weights themselves, so that rounding
  // errors do not add up.
  std::vector<int16_t> out(exact.size());
  double sum = 0;
  int before = 0;
  for (size_t away = exact.size() - 1; away > 0; --away) {
    sum += exact[away];
    const auto rounded = static_cast<int>(std::floor(sum / total * (1 << kBlurBits) + 0.5));
    out[away] = static_cast<int16_t>(rounded - before);
    before = rounded;
  }
  out[0] = static_cast<int16_t>((1 << kBlurBits) - 2 * before);
  while (out.back() == 0) out.pop_back();
  return out;
}

void blur(const Picture& from, std::span<const int16_t> across, std::span<const int16_t> down,
          Picture* to) {
  const Size size = from.size();
  to->reset(size);
  const auto far_across = static_cast<int64_t>(across.size()) - 1;
  const auto far_down = static_cast<int64_t>(down.size()) - 1;
  FOREBAY_CHECK(far_across < size.width && far_down < size.height);
  std::vector<const uint8_t*> rows(2 * down.size() - 1);
  std::vector<int16_t> row(from.stride() + 2 * across.size() + base::kPlanarPadding);
  int16_t* const first = row.data() + far_across;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (int64_t y = 0; y < size.height; ++y) {
      for (int64_t away = -far_down; away <= far_down; ++away) {
        rows[static_cast<size_t>(away + far_down)] =
            from.row(channel, mirrored(y + away, size.height));
      }
      HWY_DYNAMIC_DISPATCH(blur_down)(rows, down, size.width, first);
      for (int64_t away = 1; away <= far_across; ++away) {
        first[-away] = first[mirrored(-away, size.width)];
        const int64_t end = int64_t{size.width} - 1 + away;
        first[end] = first[mirrored(end, size.width)];
      }
      HWY_DYNAMIC_DISPATCH(blur_across)
      (first, across, size.width, to->row(channel, static_cast<uint32_t>(y)));
    }
  }
}

}  // namespace forebay::image
#endif  // HWY_ONCE
