// The two passes of a resize over rows of bytes: sums of weighted pixels along a row, and of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/resize_weights.h"

namespace forebay::image {

// What may be written behind a row, and read behind what a row is made from.
inline constexpr size_t kBlendPadding = 64;

// How a row's outputs come from its pixels. Four outputs beside each other are made at once, from
// the 16 bytes where their pixels lie, two taps of each at a time; where the row shrinks too much
// for that, one after the other.
struct Across {
  static constexpr uint32_t kOutputs = 4;       // of a group
  static constexpr uint32_t kWindow = 16;       // bytes
  static constexpr uint32_t kGroupsAtOnce = 4;  // at most
  static constexpr uint32_t kTapsOfEach = 8;    // at once, of an output that is made by itself

  Axis axis;
  bool grouped = false;
  size_t groups = 0;             // a multiple of kGroupsAtOnce; the last ones may be there twice
  uint32_t pairs_of_window = 0;  // that lie in one window; the next one begins so many pairs behind
  std::vector<uint32_t> windows;  // by group: where the first begins
  std::vector<uint8_t> places;    // by group: in its window, of the first two taps of each output
  std::vector<int16_t> weights;   // by pair of taps, then group: two of each output

  // Does nothing when `wanted` is what is there already. Its `multiple` is chosen here.
  void compute(AxisSpec wanted);
};

// One channel of a row.
void blend_across(const Across& across, const uint8_t* row, uint8_t* out);

// Output `index` of `axis`, from axis.taps rows of `bytes` each, kBlendPadding behind them.
void blend_down(const Axis& axis, size_t index, const uint8_t* const* rows, size_t bytes,
                uint8_t* out);

}  // namespace forebay::image
