// Numbers are the same with any instruction set, because only exactly rounded operations are used
// and each has its own block of random bits. Compiled once for each instruction set by Highway.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/transform/normals.cc"
#include <hwy/foreach_target.h>
// clang-format off: foreach_target comes first
#include <hwy/highway.h>
// clang-format on

#include "base/status.h"
#include "image/transform/normals.h"

HWY_BEFORE_NAMESPACE();
namespace forebay::image::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DU = hn::CappedTag<uint32_t, 16>;
using DF = hn::RebindToFloat<DU>;
using DI = hn::RebindToSigned<DU>;
using D64 = hn::RepartitionToWide<DU>;
constexpr DU du;
constexpr DF df;
constexpr DI di;
constexpr D64 d64;
using VU = hn::Vec<DU>;
using VF = hn::Vec<DF>;

HWY_INLINE VF set(float value) { return hn::Set(df, value); }

// The upper and the lower half of each product.
struct Product {
  VU high;
  VU low;
};

HWY_INLINE Product multiply(VU a, VU b) {
  const auto even = hn::MulEven(a, b);
  const auto odd_lanes = [](VU v) HWY_ATTR {
    return hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(d64, v)));
  };
  const auto odd = hn::MulEven(odd_lanes(a), odd_lanes(b));
  return {hn::OddEven(hn::BitCast(du, odd), odd_lanes(hn::BitCast(du, even))),
          hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even))};
}

// base::philox() for a block in each lane, of which the first words of the counters differ.
HWY_INLINE std::array<VU, 4> random_bits(VU first_words, const base::Random::BlockInput& place) {
  std::array<VU, 4> words{first_words, hn::Set(du, place.counter[1]), hn::Set(du, place.counter[2]),
                          hn::Set(du, place.counter[3])};
  std::array<uint32_t, 2> key = place.key;
  for (int round = 0; round < 10; ++round) {
    const Product by_first = multiply(words[0], hn::Set(du, 0xD2511F53));
    const Product by_third = multiply(words[2], hn::Set(du, 0xCD9E8D57));
    words = {hn::Xor(hn::Xor(by_third.high, words[1]), hn::Set(du, key[0])), by_third.low,
             hn::Xor(hn::Xor(by_first.high, words[3]), hn::Set(du, key[1])), by_first.low};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return words;
}

// The natural logarithm of numbers above 0. With x = 2^k (1 + f), 1 + f near 1, and s = f / (2 +
// f), log(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...).
HWY_INLINE VF log_of(VF x) {
  const auto bits = hn::BitCast(di, x);
  // Exponents count from the square root of 1/2, so that 1 + f is at most the square root of 2.
  const auto from_root = hn::Sub(bits, hn::Set(di, 0x3f3504f3));
  const auto k = hn::ShiftRight<23>(from_root);
  const VF f = hn::Sub(hn::BitCast(df, hn::Sub(bits, hn::ShiftLeft<23>(k))), set(1));
  const VF s = hn::Div(f, hn::Add(f, set(2)));
  const VF z = hn::Mul(s, s);
  VF sum = set(2.0F / 9);
  for (const float factor : {2.0F / 7, 2.0F / 5, 2.0F / 3, 2.0F}) {
    sum = hn::Add(hn::Mul(sum, z), set(factor));
  }
  return hn::Add(hn::Mul(hn::ConvertTo(df, k), set(0.693147181F)), hn::Mul(sum, s));
}

struct Circle {
  VF x;
  VF y;
};

// A point of the unit circle for each number of 32 bits: the upper two bits choose a quarter, the
// others the angle from the quarter's middle.
HWY_INLINE Circle point_of(VU bits) {
  constexpr float kScale = 1.57079633F / (1 << 30);
  const auto in_quarter =
      hn::Sub(hn::BitCast(di, hn::And(bits, hn::Set(du, 0x3fffffff))), hn::Set(di, 1 << 29));
  const VF angle = hn::Mul(hn::ConvertTo(df, in_quarter), set(kScale));
  const VF z = hn::Mul(angle, angle);
  VF sine = set(1.0F / 362880);
  for (const float factor : {-1.0F / 5040, 1.0F / 120, -1.0F / 6, 1.0F}) {
    sine = hn::Add(hn::Mul(sine, z), set(factor));
  }
  sine = hn::Mul(sine, angle);
  VF cosine = set(1.0F / 40320);
  for (const float factor : {-1.0F / 720, 1.0F / 24, -1.0F / 2, 1.0F}) {
    cosine = hn::Add(hn::Mul(cosine, z), set(factor));
  }
  // A quarter turn swaps the two; each of the two bits is a sign as well.
  const auto swapped = hn::RebindMask(df, hn::TestBit(bits, hn::Set(du, 1U << 30)));
  const auto sign = hn::Set(du, 1U << 31);
  const auto flip = [&](VF value, VU by) HWY_ATTR {
    return hn::BitCast(df, hn::Xor(hn::BitCast(du, value), hn::And(by, sign)));
  };
  return {flip(hn::IfThenElse(swapped, sine, cosine), bits),
          flip(hn::IfThenElse(swapped, cosine, sine), hn::Xor(bits, hn::ShiftLeft<1>(bits)))};
}

// Two normal numbers for each pair of 32 bits (Box and Muller, 1958).
HWY_INLINE Circle normals_of(VU radius_bits, VU angle_bits) {
  // From 2^-32 to 1.
  const auto high = hn::ConvertTo(df, hn::BitCast(di, hn::ShiftRight<1>(radius_bits)));
  const VF share = hn::Mul(hn::Add(high, set(0.5F)), set(0x1p-31F));
  const VF radius = hn::Sqrt(hn::Max(hn::Mul(log_of(share), set(-2)), hn::Zero(df)));
  const Circle point = point_of(angle_bits);
  return {hn::Mul(radius, point.x), hn::Mul(radius, point.y)};
}

// Writes four numbers for each of `count` / 4 blocks.
void fill_normals(const base::Random::BlockInput& place, size_t count, float* to) {
  for (size_t i = 0; i < count; i += 4 * hn::Lanes(du)) {
    const auto first = static_cast<uint32_t>(place.counter[0] + i / 4);
    const auto bits = random_bits(hn::Iota(du, first), place);
    const Circle one = normals_of(bits[0], bits[1]);
    const Circle two = normals_of(bits[2], bits[3]);
    hn::StoreInterleaved4(one.x, one.y, two.x, two.y, df, to + i);
  }
}

}  // namespace
}  // namespace forebay::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace forebay::image {

HWY_EXPORT(fill_normals);

void Normals::refill() {
  HWY_DYNAMIC_DISPATCH(fill_normals)(place_, numbers_.size(), numbers_.data());
  place_.counter[0] += static_cast<uint32_t>(numbers_.size() / 4);
  at_ = 0;
}

}  // namespace forebay::image
#endif  // HWY_ONCE
