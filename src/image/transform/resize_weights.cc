// Does the same as ATen/native/cpu/UpSampleKernel.cpp (HelperInterpBase, HelperInterpLinear and
// HelperInterpCubic with antialias), operation for operation, since the last bit of a double can
// change a weight.
#include "image/transform/resize_weights.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace forebay::image {
namespace {

constexpr int kMostPrecise = 22;

double triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

// Keys' cubic convolution with a = -1/2.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  const double inner = ((kA + 2) * x - (kA + 3)) * x * x + 1;
  const double outer = (((x - 5) * x + 8) * x - 4) * kA;
  return x < 1 ? inner : x < 2 ? outer : 0;
}

// Values of neighbouring outputs, in loops that compilers turn into vector code.
constexpr size_t kLanes = Axis::kLanes;
using Lanes = std::array<double, kLanes>;

// The source pixels that each output is made from.
struct Windows {
  Lanes centre;
  std::array<int32_t, kLanes> start;
  std::array<int32_t, kLanes> size;
};

struct Scale {
  double begin;
  double scale;
  double support;
  double inverse;
  int32_t in;
  int32_t size_max;

  explicit Scale(const AxisSpec& spec)
      : begin(spec.begin),
        scale(spec.length / static_cast<double>(spec.out)),
        support((spec.cubic ? 2 : 1) * (scale >= 1 ? scale : 1)),
        inverse(scale >= 1 ? 1 / scale : 1),
        in(static_cast<int32_t>(spec.in)),
        size_max(static_cast<int32_t>(std::ceil(support)) * 2 + 1) {}

  // Returns the windows of the outputs from `first` on.
  Windows windows(uint32_t first) const {
    Windows out;
    for (size_t i = 0; i < kLanes; ++i) {
      const double output = static_cast<double>(static_cast<int32_t>(first + i));
      const double centre = begin + scale * (output + 0.5);
      const int32_t start = std::max(static_cast<int32_t>(centre - support + 0.5), 0);
      const int32_t end = std::min(static_cast<int32_t>(centre + support + 0.5), in);
      out.centre[i] = centre;
      out.start[i] = start;
      out.size[i] = std::clamp(end - start, 0, size_max);
    }
    return out;
  }

  // Fills `weights` with `taps` weights for each output, and returns the largest weight of the
  // first `count` outputs.
  template <double (*kFilter)(double)>
  double weigh(const Windows& windows, uint32_t count, int32_t taps, Lanes* weights) const {
    Lanes total{};
    for (int32_t tap = 0; tap < taps; ++tap) {
      for (size_t i = 0; i < kLanes; ++i) {
        const double at = static_cast<double>(tap + windows.start[i]) - windows.centre[i] + 0.5;
        const double weight = kFilter(at * inverse);
        weights[tap][i] = tap < windows.size[i] ? weight : 0;
        total[i] += weights[tap][i];
      }
    }
    Lanes largest{};
    for (int32_t tap = 0; tap < taps; ++tap) {
      for (size_t i = 0; i < kLanes; ++i) {
        // PyTorch leaves weights unchanged when their sum is 0.
        const double weight = weights[tap][i] / (total[i] == 0 ? 1 : total[i]);
        weights[tap][i] = weight;
        const double considered = total[i] == 0 ? 0 : weight;
        largest[i] = considered > largest[i] ? considered : largest[i];
      }
    }
    return *std::max_element(largest.begin(), largest.begin() + count);
  }
};

// Returns the largest precision with which the largest weight fits int16.
int precision_for(double largest) {
  int precision = 0;
  while (precision < kMostPrecise &&
         static_cast<int>(0.5 + largest * (1 << (precision + 1))) < 1 << 15) {
    ++precision;
  }
  return precision;
}

std::array<int16_t, kLanes> round(const Lanes& values, double factor) {
  std::array<int16_t, kLanes> out;
  for (size_t i = 0; i < kLanes; ++i) {
    const double value = values[i] * factor;
    out[i] = static_cast<int16_t>(static_cast<int32_t>(value + (value < 0 ? -0.5 : 0.5)));
  }
  return out;
}

}  // namespace

uint32_t nearest_pixel(const AxisSpec& spec, uint32_t output) {
  const float scale = static_cast<float>(spec.length) / static_cast<float>(spec.out);
  const float place = static_cast<float>(output) + (spec.exact ? 0.5F : 0.0F);
  const float at = static_cast<float>(spec.begin) + place * scale;
  return std::min(static_cast<uint32_t>(std::floor(at)), spec.in - 1);
}

void Axis::compute(const AxisSpec& wanted) {
  if (wanted == spec) return;
  spec = wanted;
  const Scale scale(spec);
  start.resize(spec.count);
  int32_t longest = 1;
  for (uint32_t i = 0; i < spec.count; i += kLanes) {
    const Windows windows = scale.windows(spec.first + i);
    const uint32_t count = std::min<uint32_t>(kLanes, spec.count - i);
    std::copy_n(windows.start.begin(), count, start.begin() + i);
    longest =
        std::max(longest, *std::max_element(windows.size.begin(), windows.size.begin() + count));
  }
  taps = (static_cast<uint32_t>(longest) + spec.multiple - 1) / spec.multiple * spec.multiple;

  // The precision depends on the weights of every output, kept or not.
  const size_t of_kept = (size_t{spec.count} + kLanes - 1) / kLanes * taps;
  const size_t of_others = spec.count < spec.out ? static_cast<size_t>(scale.size_max) : 0;
  exact_.resize(of_kept + of_others);
  double largest = 0;
  const auto weigh = [&](uint32_t first, uint32_t end, int32_t most, Lanes* to, size_t step) {
    for (; first < end; first += kLanes, to += step) {
      const Windows windows = scale.windows(first);
      const uint32_t count = std::min<uint32_t>(kLanes, end - first);
      largest = std::max(largest, spec.cubic ? scale.weigh<cubic>(windows, count, most, to)
                                             : scale.weigh<triangle>(windows, count, most, to));
    }
  };
  const uint32_t end = spec.first + spec.count;
  weigh(spec.first, end, static_cast<int32_t>(taps), exact_.data(), taps);
  weigh(0, spec.first, scale.size_max, exact_.data() + of_kept, 0);
  weigh(end, spec.out, scale.size_max, exact_.data() + of_kept, 0);

  precision = precision_for(largest);
  weights.resize(size_t{spec.count} * taps);
  int16_t* to = weights.data();
  for (uint32_t i = 0; i < spec.count; i += kLanes, to += kLanes * taps) {
    const size_t count = std::min<size_t>(kLanes, spec.count - i);
    for (size_t tap = 0; tap < taps; ++tap) {
      const auto rounded = round(exact_[i / kLanes * taps + tap], 1 << precision);
      for (size_t lane = 0; lane < count; ++lane) to[lane * taps + tap] = rounded[lane];
    }
  }
}

}  // namespace forebay::image
