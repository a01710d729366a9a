// The two passes of a resize over rows of bytes: sums of weighted pixels along a row, and of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pixels.h"
#include "image/resize_weights.h"

namespace forebay::image {

// What may be written behind a row, and read behind what a row is made from.
inline constexpr size_t kBlendPadding = 64;

// How a row's outputs come from its pixels. Outputs beside each other are made at once, from the
// window where their pixels lie, two taps of each at a time: sixteen from 64 or 128 bytes where the
// machine can, else four from 16; where the row shrinks too much for that, one after the other.
struct Across {
  static constexpr uint32_t kFour = 4;
  static constexpr uint32_t kFoursWindow = 16;  // bytes
  static constexpr uint32_t kFoursAtOnce = 4;   // at most
  static constexpr uint32_t kSixteen = 16;
  static constexpr uint32_t kSixteensWindow = 64;
  static constexpr uint32_t kWideWindow = 128;
  static_assert(base::kPlanarPadding >= kSixteensWindow);
  static constexpr uint32_t kTapsOfEach = 8;  // at once, of an output that is made by itself

  Axis axis;
  bool may_be_sixteens = false;  // this machine runs blend_avx512.cc
  uint32_t of_group = 1;         // outputs
  uint32_t window = 0;           // bytes of a group's
  size_t groups = 0;             // the last ones may be there twice
  uint32_t pairs_of_window = 0;  // that lie in one window; the next one begins so many pairs behind
  std::vector<uint32_t> windows;  // by group: where the first begins, not past the padding
  std::vector<uint8_t> places;    // by output: in its window, of its first two taps; four bytes
  std::vector<int16_t> weights;   // by pair of taps, then output: two

  // Does nothing when `wanted` is what is there already. Its `multiple` is chosen here.
  void compute(AxisSpec wanted);

 private:
  void group_outputs(uint32_t outputs, uint32_t window_bytes);
};

// The channels of a row, to `out_stride` bytes behind each other.
void blend_across(const Across& across, const base::PlanarRow& row, uint8_t* out,
                  size_t out_stride);

// Across, whose groups are of sixteen and have one window each: bare pointers, since
// blend_avx512.cc may use no inline functions.
struct Sixteens {
  const uint32_t* windows;
  const uint8_t* places;
  const int16_t* weights;
  size_t groups;
  uint32_t window;
  uint32_t pairs;
  int precision;
};
void blend_sixteens_avx512(const Sixteens& across, const uint8_t* const* rows, uint8_t* out,
                           size_t out_stride);

// Output `index` of `axis`, from axis.taps rows of `bytes` each, kBlendPadding behind them.
void blend_down(const Axis& axis, size_t index, const uint8_t* const* rows, size_t bytes,
                uint8_t* out);

// What blend_down() is given of its axis, as bare pointers like Sixteens. `taps` is even.
struct Down {
  const int16_t* weights;
  uint32_t taps;
  int precision;
};
void blend_down_avx512(const Down& down, const uint8_t* const* rows, size_t bytes, uint8_t* out);

}  // namespace forebay::image
