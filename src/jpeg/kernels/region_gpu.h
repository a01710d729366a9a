// Regions of JPEGs in the form that the kernels of a GPU read: plain structures, built on the host
// (plan_gpu.h). The kernels are in entropy_gpu.h, idct_gpu.h and rgb_rows_gpu.h.
#pragma once

#include <cstdint>

#include "base/gpu.h"
#include "base/limits.h"

namespace forebay::jpeg::gpu {

// A Huffman table. A code of at most kQuickBits is found in `quick`. Longer codes begin with ones
// in nearly all tables; codes that do are in `late`. All other codes are found by their length
// (T.81 F.2.2.3).
struct HuffmanLookup {
  static constexpr uint32_t kQuickBits = 10;
  static constexpr uint32_t kLate = 1 << 10;
  static constexpr uint32_t kLateBegin = (1 << 16) - kLate;
  uint16_t quick[1 << kQuickBits];  // by the next bits: symbol | length << 8; 0: longer code
  uint16_t late[kLate];             // by the next 16 bits - kLateBegin; 0: not in this table
  int32_t code_end[17];             // by length: codes below this are not longer; left-aligned
  int32_t first[17];                // by length: index of the first symbol - the first code
  uint8_t values[256];
};

struct Component {
  alignas(16) int16_t steps[64];  // quantisation steps in zigzag order
  uint32_t dc;                    // the number of its DC lookup
  uint32_t ac;
  uint32_t mcu_width;  // samples
  uint32_t mcu_height;
  // The samples, same meaning as in jpeg::Plane.
  uint64_t plane;  // where the samples begin in the memory of all samples
  uint64_t stride;
  uint32_t left;
  uint32_t top;
  uint32_t width;
  uint32_t height;
  // Upsampling, same meaning as in jpeg::Channel.
  uint32_t across;
  uint32_t down;
  bool fancy;
};

struct Region {
  uint32_t across;  // the fields up to y_of have the same meaning as in RegionLayout
  uint32_t left;
  uint32_t right;
  uint32_t top;
  uint32_t bottom;
  uint32_t blocks;
  uint8_t component_of[base::kMcuBlocksMax];
  uint8_t x_of[base::kMcuBlocksMax];
  uint8_t y_of[base::kMcuBlocksMax];
  uint32_t component_count;
  Component components[3];
  bool ycc;  // otherwise RGB or grey
  // Where the coefficients of the MCUs [left, right) x [top, bottom) begin, row by row, in the
  // memory of all coefficients.
  uint64_t coefficients;
  // The region in the image, in pixels.
  uint32_t x;
  uint32_t y;
  uint32_t width;
  uint32_t height;
  // Where the pixels begin: three planes of height x pixel_stride(). A row begins kPixelsTogether-
  // aligned in the image, so it has up to three pixels before the region and three after it.
  uint64_t pixels;

  static constexpr uint32_t kPixelsTogether = 4;
  FOREBAY_GPU uint32_t needed_blocks() const { return (right - left) * (bottom - top) * blocks; }
  FOREBAY_GPU uint32_t pixels_before() const { return x % kPixelsTogether; }
  FOREBAY_GPU uint32_t pixel_stride() const {
    return (pixels_before() + width + kPixelsTogether - 1) / kPixelsTogether * kPixelsTogether;
  }
  FOREBAY_GPU uint32_t plane_bytes() const { return pixel_stride() * height; }
};

struct SegmentTask {
  uint32_t region;  // the number of the region
  uint32_t first_mcu;
  uint32_t end_mcu;    // after the last needed MCU
  uint32_t whole_end;  // after the last MCU of the segment
  uint64_t words;      // the address of the data; 0: the data that was sent with the batch
  uint64_t bit;        // where the segment begins in this data
  uint64_t end_bit;
};

}  // namespace forebay::jpeg::gpu
