// Where decoded samples lie before they become pixels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forebay::jpeg {

// The samples of one component, in whole blocks, so the plane exceeds the region on all sides.
struct Plane {
  // The sample of column `left` and row `top`. One byte before and some bytes after each row may be
  // written.
  uint8_t* samples = nullptr;
  size_t stride = 0;
  uint32_t left = 0;  // counted in samples of the component
  uint32_t top = 0;
  uint32_t width = 0;  // of the whole component, without the samples that only fill blocks
  uint32_t height = 0;

  uint8_t* row(uint32_t y) const { return samples + size_t{y - top} * stride; }
};

}  // namespace forebay::jpeg
