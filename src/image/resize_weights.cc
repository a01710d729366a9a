// As ATen/native/cpu/UpSampleKernel.cpp (HelperInterpBase, HelperInterpLinear and HelperInterpCubic
// with antialias) does, operation for operation, since the last bit of a double can change a
// weight.
#include "image/resize_weights.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace forebay::image {
namespace {

constexpr int kPrecisionMax = 22;

double triangle(double x) {
  if (x < 0) x = -x;
  return x < 1 ? 1 - x : 0;
}

// Keys' cubic convolution with a = -1/2.
double cubic(double x) {
  constexpr double kA = -0.5;
  if (x < 0) x = -x;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

struct Scale {
  double begin;
  double scale;
  double support;
  double inverse;
  int64_t in;

  explicit Scale(const AxisSpec& spec)
      : begin(spec.begin),
        scale(spec.length / static_cast<double>(spec.out)),
        support((spec.cubic ? 2 : 1) * (scale >= 1 ? scale : 1)),
        inverse(scale >= 1 ? 1 / scale : 1),
        in(spec.in) {}

  Axis::Window window(uint32_t output) const {
    const double centre = begin + scale * (static_cast<double>(output) + 0.5);
    const int64_t start = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(centre + support + 0.5), in);
    const int64_t size_max = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
    return {centre, start, std::clamp<int64_t>(end - start, 0, size_max)};
  }

  // Fills `weights` (window.size of room) and returns the largest.
  template <double (*kFilter)(double)>
  double weigh(const Axis::Window& window, double* weights) const {
    double total = 0;
    for (int64_t j = 0; j < window.size; ++j) {
      const double at = static_cast<double>(j + window.start) - window.centre + 0.5;
      weights[j] = kFilter(at * inverse);
      total += weights[j];
    }
    double largest = 0;
    if (total == 0) return largest;
    for (int64_t j = 0; j < window.size; ++j) {
      weights[j] /= total;
      largest = std::max(largest, weights[j]);
    }
    return largest;
  }
};

// The most bits with which the largest weight fits int16.
int precision_for(double largest) {
  int precision = 0;
  while (precision < kPrecisionMax &&
         static_cast<int>(0.5 + largest * (1 << (precision + 1))) < 1 << 15) {
    ++precision;
  }
  return precision;
}

}  // namespace

void Axis::compute(const AxisSpec& wanted) {
  if (wanted == spec) return;
  spec = wanted;
  const Scale scale(spec);
  int64_t longest = 1;
  windows_.resize(spec.count);
  start.resize(spec.count);
  for (uint32_t i = 0; i < spec.count; ++i) {
    const Window window = scale.window(spec.first + i);
    windows_[i] = window;
    start[i] = static_cast<uint32_t>(window.start);
    longest = std::max(longest, window.size);
  }
  taps = (static_cast<uint32_t>(longest) + spec.multiple - 1) / spec.multiple * spec.multiple;

  // The precision depends on the weights of every output, kept or not.
  const size_t room = static_cast<size_t>(std::ceil(scale.support)) * 2 + 1;
  exact_.assign(std::max<size_t>(taps, room) + size_t{spec.count} * taps, 0.0);
  double* const unkept = exact_.data() + size_t{spec.count} * taps;
  double largest = 0;
  for (uint32_t i = 0; i < spec.out; ++i) {
    const bool kept = i - spec.first < spec.count;
    double* const to = kept ? exact_.data() + size_t{i - spec.first} * taps : unkept;
    const Window window = kept ? windows_[i - spec.first] : scale.window(i);
    largest = std::max(
        largest, spec.cubic ? scale.weigh<cubic>(window, to) : scale.weigh<triangle>(window, to));
  }
  precision = precision_for(largest);
  weights.resize(size_t{spec.count} * taps);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double weight = exact_[i] * (1 << precision);
    weights[i] = static_cast<int16_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
  }
}

}  // namespace forebay::image
