// Decoded samples before they become pixels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::jpeg {

// The samples of one component, of whole blocks: more than the region on all sides.
struct Plane {
  // Of column `left` and row `top`. One byte before and some behind each row may be written.
  uint8_t* samples = nullptr;
  size_t stride = 0;
  uint32_t left = 0;  // in the component's own samples
  uint32_t top = 0;
  uint32_t width = 0;  // of the whole component, edges of blocks not counted
  uint32_t height = 0;

  uint8_t* row(uint32_t y) const { return samples + size_t{y - top} * stride; }
};

}  // namespace forebay::jpeg
