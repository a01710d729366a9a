// Draws must be the same everywhere, so libm's exp and log, whose last bits differ between
// machines, have no place here; sqrt, + - * / are rounded exactly by IEEE 754.
#include "image/crop.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/limits.h"

namespace forebay::image {
namespace {

static_assert(FLT_EVAL_METHOD == 0, "doubles must be rounded after each operation");

constexpr int kTries = 10;
constexpr double kLn2High = 0x1.62e42feep-1;  // ends in zeros: exact when multiplied by an exponent
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

// 2^exponent, for exponents of normal numbers.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// As Python's round(): halves to even. For 0 <= x < 2^52.
uint32_t round_half_even(double x) {
  const double whole = std::floor(x);
  const double rest = x - whole;
  auto rounded = static_cast<uint32_t>(whole);
  if (rest > 0.5 || (rest == 0.5 && rounded % 2 == 1)) ++rounded;
  return rounded;
}

// At least 1 pixel, so that odd options still give a crop.
uint32_t fit(double side, uint32_t limit) {
  if (side >= limit) return limit;
  return std::max(1u, round_half_even(side));
}

struct Shape {
  uint32_t along = 0;
  uint32_t across = 0;
};

// A rectangle of a share of `area`, uniform, and a ratio of along to across, uniform in its
// logarithm.
template <class Options>
Shape draw_shape(const Options& options, double area, base::Random& random) {
  const double log_min = exact_log(options.ratio_min);
  const double log_max = exact_log(options.ratio_max);
  const double share =
      options.scale_min + (options.scale_max - options.scale_min) * random.uniform();
  const double ratio = exact_exp(log_min + (log_max - log_min) * random.uniform());
  return {.along = round_half_even(std::sqrt(area * share * ratio)),
          .across = round_half_even(std::sqrt(area * share / ratio))};
}

// Anywhere inside, `y` drawn first.
Rect draw_place(uint32_t w, uint32_t h, uint32_t width, uint32_t height, base::Random& random) {
  const auto y = static_cast<uint32_t>(random.below(uint64_t{height} - h + 1));
  const auto x = static_cast<uint32_t>(random.below(uint64_t{width} - w + 1));
  return {x, y, w, h};
}

// The largest crop of an allowed ratio, in the centre.
Rect fallback_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height) {
  Rect crop{0, 0, width, height};
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  if (ratio < options.ratio_min) {
    crop.height = fit(width / options.ratio_min, height);
  } else if (ratio > options.ratio_max) {
    crop.width = fit(height * options.ratio_max, width);
  }
  crop.x = (width - crop.width) / 2;
  crop.y = (height - crop.height) / 2;
  return crop;
}

}  // namespace

// x = k ln 2 + r, e^x = 2^k e^r; e^r, |r| < 0.35, by its Taylor series.
double exact_exp(double x) {
  const double k = std::floor(x * kInverseLn2 + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 0;
  for (int n = 14; n >= 2; --n) sum = (sum + 1) * (r / n);
  return (1 + (r + r * sum)) * power_of_two(static_cast<int>(k));
}

// x = 2^k (1 + f), 1 + f near 1; with s = f / (2 + f), log(1 + f) = 2 atanh(s), arranged as in
// FreeBSD's e_log.c so that the leading f stays exact.
double exact_log(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  int k = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000f'ffff'ffff'ffff) | 0x3ff0'0000'0000'0000;
  double mantissa = std::bit_cast<double>(bits);
  if (mantissa > 0x1.6a09e667f3bcdp+0) {  // sqrt(2)
    mantissa *= 0.5;
    ++k;
  }
  const double f = mantissa - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  double rest = 0;
  for (int n = 25; n >= 3; n -= 2) rest = (rest + 2.0 / n) * z;
  const double half_square = 0.5 * f * f;
  return k * kLn2High - ((half_square - (s * (half_square + rest) + k * kLn2Low)) - f);
}

Rect draw_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height,
               base::Random& random) {
  const double area = static_cast<double>(width) * static_cast<double>(height);
  for (int i = 0; i < kTries; ++i) {
    const auto [w, h] = draw_shape(options, area, random);
    if (w == 0 || w > width || h == 0 || h > height) continue;
    return draw_place(w, h, width, height, random);
  }
  return fallback_crop(options, width, height);
}

std::optional<Rect> draw_erased(const RandomErasing& options, uint32_t size, base::Random& random) {
  if (random.uniform() >= options.probability) return std::nullopt;
  const double area = static_cast<double>(size) * static_cast<double>(size);
  for (int i = 0; i < kTries; ++i) {
    const auto [h, w] = draw_shape(options, area, random);
    if (w >= size || h >= size) continue;
    if (w == 0 || h == 0) return std::nullopt;
    return draw_place(w, h, size, size, random);
  }
  return std::nullopt;
}

Rect draw_padded_crop(const RandomPaddedCrop& options, uint32_t width, uint32_t height,
                      uint32_t size, base::Random& random) {
  return draw_place(size, size, width + 2 * options.padding, height + 2 * options.padding, random);
}

void PaddedCrop::begin(Size image, uint32_t padding, const Rect& crop) {
  FOREBAY_CHECK(padding < image.width && padding < image.height &&
                crop.inside(image.width + 2 * padding, image.height + 2 * padding));
  image_ = image;
  padding_ = padding;
  crop_ = crop;
  begin_ = std::clamp(padding, crop.x, crop.x + crop.width) - crop.x;
  end_ = std::clamp(padding + image.width, crop.x, crop.x + crop.width) - crop.x;
}

// -1 is 1, width is width - 2: the border itself is not repeated.
size_t PaddedCrop::mirrored(uint32_t x) const {
  const int64_t at = int64_t{crop_.x} + x - padding_;
  const int64_t last = int64_t{image_.width} - 1;
  return static_cast<size_t>(at < 0 ? -at : at > last ? 2 * last - at : at);
}

base::PlanarRow PaddedCrop::cut(const base::PlanarRow& row) {
  const size_t stride = crop_.width + base::kPlanarPadding;
  row_.resize(3 * stride);
  for (size_t c = 0; c < row.size(); ++c) {
    uint8_t* const out = row_.data() + c * stride;
    for (uint32_t x = 0; x < begin_; ++x) out[x] = row[c][mirrored(x)];
    if (begin_ < end_) std::memcpy(out + begin_, row[c] + mirrored(begin_), end_ - begin_);
    for (uint32_t x = end_; x < crop_.width; ++x) out[x] = row[c][mirrored(x)];
  }
  return {row_.data(), row_.data() + stride, row_.data() + 2 * stride};
}

Result<CentreCrop> centre_crop(uint32_t width, uint32_t height, uint32_t resize, uint32_t size) {
  FOREBAY_CHECK(size <= resize);
  const uint64_t shorter = std::min(width, height);
  const uint64_t longer = std::max(width, height);
  if (resize * longer / shorter > base::kImageSideMax) {
    return base::fail(base::Code::kTooBig,
                      "{} x {} pixels resized to {} on the short side make more than {} on the "
                      "long one",
                      width, height, resize, base::kImageSideMax);
  }
  const auto resized_longer = static_cast<uint32_t>(resize * longer / shorter);
  CentreCrop crop;
  crop.resized = width <= height ? Size{resize, resized_longer} : Size{resized_longer, resize};
  crop.kept = {round_half_even((crop.resized.width - size) / 2.0),
               round_half_even((crop.resized.height - size) / 2.0), size, size};
  return crop;
}

}  // namespace forebay::image
