// The weights of PyTorch's antialiased bilinear and bicubic uint8 resize along one axis.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forebay::image {

// What an axis is computed for; equal specs have equal weights.
struct AxisSpec {
  uint32_t in = 0;    // pixels of the source
  double begin = 0;   // of what is resized, in pixels of the source
  double length = 0;  // in the same
  uint32_t out = 0;   // pixels of the resized whole
  uint32_t first = 0;
  uint32_t count = 0;     // the outputs [first, first + count) that are kept
  uint32_t multiple = 1;  // every output's taps are padded with zero weights to a multiple of this
  bool cubic = false;
  bool operator==(const AxisSpec&) const = default;
};

// Whether pixels stay as they are along the axis, from spec.first on.
inline bool is_copy(const AxisSpec& spec) { return spec.begin == 0 && spec.length == spec.out; }
// PyTorch's nearest: the source's pixel for an output, in its float arithmetic.
uint32_t nearest_pixel(const AxisSpec& spec, uint32_t output);

// Output i is sum(weights[i * taps + j] * source[start[i] + j]) rounded and shifted by `precision`.
// Padding taps may lie past the source's end: their weights are zero.
struct Axis {
  AxisSpec spec;
  int precision = 0;  // 1 to 22: bits after the point of a weight
  uint32_t taps = 0;
  std::vector<uint32_t> start;
  std::vector<int16_t> weights;

  // Does nothing when `wanted` is what is there already.
  void compute(const AxisSpec& wanted);

  static constexpr size_t kLanes = 32;  // outputs that are computed together

 private:
  std::vector<std::array<double, kLanes>> exact_;  // by group of outputs that are kept, then tap
};

}  // namespace forebay::image
