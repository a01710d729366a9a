// Regions of JPEGs as a GPU's kernels see them: plain structures without pointers, built on the
// host (plan_gpu.h). What the kernels make of them: entropy_gpu.h, idct_gpu.h, rgb_rows_gpu.h.
#pragma once

#include <cstdint>

#include "base/gpu.h"

namespace forebay::jpeg::gpu {

// A Huffman table: codes of up to kQuickBits at once, longer ones as T.81 F.2.2.3 has them.
struct HuffmanLookup {
  static constexpr uint32_t kQuickBits = 10;
  uint16_t quick[1 << kQuickBits];  // by the next bits: symbol | length << 8; 0 where it is longer
  int32_t code_end[17];             // by length: the codes below it are not longer; left-aligned
  int32_t first[17];                // by length: index of its first symbol - its first code
  uint8_t values[256];
  uint8_t natural[64];  // where a coefficient lies, by its place in zigzag order
};

struct Component {
  alignas(16) int16_t steps[64];  // of the quantisation, in natural order
  uint32_t dc;                    // number of its lookup
  uint32_t ac;
  uint32_t mcu_width;  // samples
  uint32_t mcu_height;
  // Of its samples: jpeg::Plane.
  uint64_t plane;  // where they begin, among all samples
  uint64_t stride;
  uint32_t left;
  uint32_t top;
  uint32_t width;
  uint32_t height;
  // Upsampling: jpeg::Channel.
  uint32_t across;
  uint32_t down;
  bool fancy;
};

struct Region {
  static constexpr uint32_t kBlocksMax = 10;  // of an MCU
  uint32_t across;                            // as RegionLayout's
  uint32_t left;
  uint32_t right;
  uint32_t top;
  uint32_t bottom;
  uint32_t blocks;
  uint8_t component_of[kBlocksMax];
  uint8_t x_of[kBlocksMax];
  uint8_t y_of[kBlocksMax];
  uint32_t component_count;
  Component components[3];
  bool ycc;  // else RGB or grey
  // Of its MCUs [left, right) x [top, bottom), row by row, among all coefficients.
  uint64_t coefficients;
  // In the image.
  uint32_t x;
  uint32_t y;
  uint32_t width;
  uint32_t height;
  uint64_t pixels;  // where its pixels begin, among all: three planes of width x height

  FOREBAY_GPU uint32_t needed_blocks() const { return (right - left) * (bottom - top) * blocks; }
  FOREBAY_GPU uint32_t area() const { return width * height; }
};

struct Segment {
  uint32_t region;  // its number
  uint32_t first_mcu;
  uint32_t end_mcu;    // behind the last one that is needed
  uint32_t whole_end;  // behind its last one
  uint64_t words;      // the address of its bits; 0: those that were sent
  uint64_t bit;        // where it begins, among these
  uint64_t end_bit;
};

}  // namespace forebay::jpeg::gpu
