// The weights of PyTorch's antialiased bilinear and bicubic uint8 resize along one axis, and the
// pixels of nearest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forebay::image {

// What an axis is computed from. Equal specs have equal weights.
struct AxisSpec {
  uint32_t in = 0;    // pixels of the source
  double begin = 0;   // where the resized part begins, in pixels of the source
  double length = 0;  // length of the resized part, in pixels of the source
  uint32_t out = 0;   // pixels of the whole result
  uint32_t first = 0;
  uint32_t count = 0;     // the outputs [first, first + count) are kept
  uint32_t multiple = 1;  // taps are padded with zero weights to a multiple of this
  bool cubic = false;
  bool exact = false;  // of nearest pixels: nearest-exact
  bool operator==(const AxisSpec&) const = default;
};

// Whether pixels are only copied along the axis, from spec.first on.
inline bool is_copy(const AxisSpec& spec) { return spec.begin == 0 && spec.length == spec.out; }
// Returns the source pixel for an output by PyTorch's rules of nearest and nearest-exact, in its
// float arithmetic.
uint32_t nearest_pixel(const AxisSpec& spec, uint32_t output);

// Output i is sum(weights[i * taps + j] * source[start[i] + j]), rounded and shifted by
// `precision`. Padding taps may lie after the end of the source; their weights are zero.
struct Axis {
  AxisSpec spec;
  int precision = 0;  // fractional bits of a weight, 1 to 22
  uint32_t taps = 0;
  std::vector<uint32_t> start;
  std::vector<int16_t> weights;

  // Does nothing when `wanted` is the current spec.
  void compute(const AxisSpec& wanted);

  static constexpr size_t kLanes = 32;  // outputs that are computed together

 private:
  std::vector<std::array<double, kLanes>> exact_;  // by group of kept outputs, then tap
};

}  // namespace forebay::image
