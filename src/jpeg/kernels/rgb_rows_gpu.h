// Makes pixels from the samples of a region in one thread of a GPU: libjpeg's fancy upsampling and
// colour conversion; the twin of rgb_rows.cc.
#pragma once

#include "jpeg/kernels/region_gpu.h"

namespace forebay::jpeg::gpu {

constexpr uint32_t kTogether = Region::kPixelsTogether;

struct Rgb {
  uint8_t channels[3];
};

// One byte for each of four neighbouring pixels in a row, from left to right.
struct alignas(4) Four {
  uint8_t values[kTogether];
};

// The two rows of samples that a row of pixels lies between.
struct Between {
  uint32_t near;
  uint32_t far;  // equals near at a side of the image
  bool first;    // whether the pixels are the first of the two rows in `near`
};
FOREBAY_GPU inline Between between(uint32_t pixel, uint32_t samples) {
  const uint32_t near = pixel / 2;
  const bool first = pixel % 2 == 0;
  const uint32_t far = first ? near - (near > 0 ? 1 : 0) : near + (near + 1 < samples ? 1 : 0);
  return {near, far, first};
}

// The samples of a component in a region.
class Samples {
 public:
  FOREBAY_GPU Samples(const Region& region, const Component& component, const uint8_t* samples)
      : component_(component), samples_(samples + component.plane) {
    const uint32_t columns = (region.right - region.left) * component.mcu_width;
    const uint32_t end = component.left + columns;
    last_ = (end < component.width ? end : component.width) - 1;
  }
  // Returns the component's values at the pixels from (x, y) of the image on, where x is a multiple
  // of kTogether. Pixels outside the region, but in its MCUs, get arbitrary values.
  FOREBAY_GPU void upsample(uint32_t x, uint32_t y, int32_t (&out)[kTogether]) const {
    if (component_.fancy && component_.across == 2) return blend_columns(x, y, out);
    if (component_.across == 1) return blend_rows(x, y, out);
    const uint8_t* const row = row_of(y / component_.down);
    for (uint32_t i = 0; i < kTogether; ++i) out[i] = row[column_of((x + i) / component_.across)];
  }

 private:
  FOREBAY_GPU const uint8_t* row_of(uint32_t row) const {
    return samples_ + uint64_t{row - component_.top} * component_.stride;
  }
  // Returns the position of a column in a row. Columns outside the image, or outside the decoded
  // samples, become the nearest column inside.
  FOREBAY_GPU uint32_t column_of(uint32_t column) const {
    if (column > last_) column = last_;
    return column > component_.left ? column - component_.left : 0;
  }
  FOREBAY_GPU void blend_rows(uint32_t x, uint32_t y, int32_t (&out)[kTogether]) const {
    const auto four = [&](uint32_t row) {
      return *reinterpret_cast<const Four*>(row_of(row) + (x - component_.left));
    };
    if (!component_.fancy) {
      const Four near = four(y / component_.down);
      for (uint32_t i = 0; i < kTogether; ++i) out[i] = near.values[i];
      return;
    }
    const Between down = between(y, component_.height);
    const Four near = four(down.near);
    const Four far = four(down.far);
    for (uint32_t i = 0; i < kTogether; ++i) {
      out[i] = (3 * near.values[i] + far.values[i] + (down.first ? 1 : 2)) >> 2;
    }
  }
  FOREBAY_GPU void blend_columns(uint32_t x, uint32_t y, int32_t (&out)[kTogether]) const {
    // The columns of the samples that the pixels lie in, the one before, and the one after.
    const uint32_t first = x / 2;
    const uint32_t columns[4] = {column_of(first == 0 ? 0 : first - 1), column_of(first),
                                 column_of(first + 1), column_of(first + 2)};
    int32_t sums[4];
    const bool both = component_.down == 2;
    const Between down = both ? between(y, component_.height) : Between{y, y, true};
    const uint8_t* const near = row_of(down.near);
    const uint8_t* const far = row_of(down.far);
    for (int i = 0; i < 4; ++i) {
      sums[i] = both ? 3 * near[columns[i]] + far[columns[i]] : near[columns[i]];
    }
    const int shift = both ? 4 : 2;
    const int32_t round_left = both ? 8 : 1;
    const int32_t round_right = both ? 7 : 2;
    out[0] = (3 * sums[1] + sums[0] + round_left) >> shift;
    out[1] = (3 * sums[1] + sums[2] + round_right) >> shift;
    out[2] = (3 * sums[2] + sums[1] + round_left) >> shift;
    out[3] = (3 * sums[2] + sums[3] + round_right) >> shift;
  }

  const Component& component_;
  const uint8_t* samples_;
  uint32_t last_;  // the last column
};

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

// Makes kTogether pixels of a row of the region's planes (region_gpu.h), the first in column
// kTogether * `quad` of `row`.
FOREBAY_GPU inline void make_pixels(const Region& region, const uint8_t* samples, uint32_t quad,
                                    uint32_t row, uint8_t* pixels) {
  const uint32_t x = region.x - region.pixels_before() + kTogether * quad;
  const uint32_t y = region.y + row;
  int32_t values[3][kTogether];
  Samples(region, region.components[0], samples).upsample(x, y, values[0]);
  for (uint32_t c = 1; c < 3; ++c) {
    if (c < region.component_count) {
      Samples(region, region.components[c], samples).upsample(x, y, values[c]);
      continue;
    }
    for (uint32_t i = 0; i < kTogether; ++i) values[c][i] = values[0][i];
  }
  Four out[3];
  for (uint32_t i = 0; i < kTogether; ++i) {
    Rgb rgb{};
    for (int c = 0; c < 3; ++c) rgb.channels[c] = static_cast<uint8_t>(values[c][i]);
    if (region.ycc) rgb = convert_ycc(values[0][i], values[1][i], values[2][i]);
    for (int c = 0; c < 3; ++c) out[c].values[i] = rgb.channels[c];
  }
  uint8_t* const to =
      pixels + region.pixels + uint64_t{row} * region.pixel_stride() + kTogether * uint64_t{quad};
  for (uint32_t c = 0; c < 3; ++c) {
    *reinterpret_cast<Four*>(to + uint64_t{c} * region.plane_bytes()) = out[c];
  }
}

}  // namespace forebay::jpeg::gpu
