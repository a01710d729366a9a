// Makes a pixel from the samples of a region by one thread of a GPU: libjpeg's fancy upsampling and
// colour conversion; the twin of rgb_rows.cc.
#pragma once

#include "jpeg/kernels/region_gpu.h"

namespace forebay::jpeg::gpu {

struct Rgb {
  uint8_t channels[3];
};

// The two samples that a pixel lies between, along one axis.
struct Between {
  uint32_t near;
  uint32_t far;  // equals near at a side of the image
  bool first;    // the pixel is the first of the two pixels of near
};
FOREBAY_GPU inline Between between(uint32_t pixel, uint32_t samples) {
  const uint32_t near = pixel / 2;
  const bool first = pixel % 2 == 0;
  const uint32_t far = first ? near - (near > 0 ? 1 : 0) : near + (near + 1 < samples ? 1 : 0);
  return {near, far, first};
}

// Returns the value of the component at pixel (x, y) of the image.
FOREBAY_GPU inline int32_t upsample(const Component& component, const uint8_t* samples, uint32_t x,
                                    uint32_t y) {
  const auto sample = [&](uint32_t column, uint32_t row) -> int32_t {
    return samples[component.plane + (row - component.top) * component.stride +
                   (column - component.left)];
  };
  if (!component.fancy) return sample(x / component.across, y / component.down);
  const Between across = between(x, component.width);
  const Between down = between(y, component.height);
  if (component.down == 1) {
    return (3 * sample(across.near, y) + sample(across.far, y) + (across.first ? 1 : 2)) >> 2;
  }
  if (component.across == 1) {
    return (3 * sample(x, down.near) + sample(x, down.far) + (down.first ? 1 : 2)) >> 2;
  }
  const auto column_sum = [&](uint32_t column) {
    return 3 * sample(column, down.near) + sample(column, down.far);
  };
  return (3 * column_sum(across.near) + column_sum(across.far) + (across.first ? 8 : 7)) >> 4;
}

// Converts like jdcolor.c, with 16 fractional bits.
FOREBAY_GPU inline Rgb convert_ycc(int32_t luma, int32_t cb, int32_t cr) {
  constexpr int32_t kHalf = 1 << 15;
  cb -= 128;
  cr -= 128;
  const int32_t rgb[3] = {luma + ((91881 * cr + kHalf) >> 16),                // 1.40200
                          luma + ((-22554 * cb - 46802 * cr + kHalf) >> 16),  // 0.34414, 0.71414
                          luma + ((116130 * cb + kHalf) >> 16)};              // 1.77200
  Rgb out{};
  for (int c = 0; c < 3; ++c) {
    out.channels[c] = static_cast<uint8_t>(rgb[c] < 0 ? 0 : rgb[c] > 255 ? 255 : rgb[c]);
  }
  return out;
}

// Returns pixel (x, y) of the region.
FOREBAY_GPU inline Rgb make_pixel(const Region& region, const uint8_t* samples, uint32_t x,
                                  uint32_t y) {
  int32_t values[3];
  for (uint32_t c = 0; c < 3; ++c) {
    values[c] = c < region.component_count
                    ? upsample(region.components[c], samples, region.x + x, region.y + y)
                    : values[0];
  }
  if (region.ycc) return convert_ycc(values[0], values[1], values[2]);
  Rgb out{};
  for (int c = 0; c < 3; ++c) out.channels[c] = static_cast<uint8_t>(values[c]);
  return out;
}

}  // namespace forebay::jpeg::gpu
