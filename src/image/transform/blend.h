// The two passes of a resize over rows of bytes: weighted sums of pixels along a row, and of rows.
// The weights come from resize_weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pixels.h"
#include "image/transform/resize_weights.h"

namespace forebay::image {

// The number of bytes that may be written after a row, and read after the rows that it is made
// from.
inline constexpr size_t kBlendPadding = 64;

// How the outputs of a row are made from its pixels. Neighbouring outputs form a group that is made
// at once from the window of bytes where their pixels lie, with two taps of each output at a time.
// A group has sixteen outputs from 64 or 128 bytes when the machine supports it, else four from 16
// bytes. When the row shrinks too much for this, outputs are made one after the other.
struct Across {
  static constexpr uint32_t kFour = 4;
  static constexpr uint32_t kFoursWindow = 16;  // bytes
  static constexpr uint32_t kFoursAtOnce = 4;   // the most groups of four at once
  static constexpr uint32_t kSixteen = 16;
  static constexpr uint32_t kSixteensWindow = 64;
  static constexpr uint32_t kWideWindow = 128;
  static_assert(base::kPlanarPadding >= kSixteensWindow);
  static constexpr uint32_t kTapsOfEach = 8;  // taps at once, when outputs are made one by one

  Axis axis;
  bool may_be_sixteens = false;   // whether this machine runs blend_avx512.cc
  uint32_t of_group = 1;          // outputs in a group
  uint32_t window = 0;            // bytes in the window of a group
  size_t groups = 0;              // the last outputs may be in two groups
  uint32_t pairs_of_window = 0;   // pairs of taps in a window; also the step to the next window
  std::vector<uint32_t> windows;  // by group: where its first window begins, inside the padding
  std::vector<uint8_t> places;  // by output: places of its first two taps in its window; four bytes
  std::vector<int16_t> weights;  // by pair of taps, then output: two weights

  // Does nothing when `wanted` is the current spec. Chooses `wanted.multiple`.
  void compute(AxisSpec wanted);

 private:
  void group_outputs(uint32_t outputs, uint32_t window_bytes);
};

// Blends the channels of a row to `out`, `out_stride` bytes apart.
void blend_across(const Across& across, const base::PlanarRow& row, uint8_t* out,
                  size_t out_stride);

// The content of an Across with groups of sixteen outputs and one window each. It has bare
// pointers, because blend_avx512.cc may not use inline functions.
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

// Makes output `index` of `axis` from axis.taps rows of `bytes` bytes, each followed by
// kBlendPadding.
void blend_down(const Axis& axis, size_t index, const uint8_t* const* rows, size_t bytes,
                uint8_t* out);

// What blend_down() needs of its axis, as bare pointers like in Sixteens. `taps` is even.
struct Down {
  const int16_t* weights;
  uint32_t taps;
  int precision;
};
// Whether this machine has the instructions of blend_avx512.cc and tone_avx512.cc.
bool runs_avx512();
void blend_down_avx512(const Down& down, const uint8_t* const* rows, size_t bytes, uint8_t* out);

}  // namespace forebay::image
