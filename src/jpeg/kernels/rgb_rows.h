// From planes of samples to rows of RGB: libjpeg's fancy upsampling and colour conversion.
#pragma once

#include <array>

#include "base/pixels.h"
#include "jpeg/format/scan.h"
#include "jpeg/kernels/plane.h"

namespace forebay::jpeg {

// Bytes that may be written after an upsampled row.
inline constexpr size_t kRowPadding = 128;
static_assert(kRowPadding >= base::kPlanarPadding);

struct Channel {
  Plane plane;
  uint32_t across = 1;  // pixels in a sample, across
  uint32_t down = 1;
  uint32_t first = 0;  // the first sample of a row that the region needs
  uint32_t samples = 0;
  // Whether pixels between samples are blended instead of repeated. The sample beyond a side of the
  // image must then equal the last one, like in libjpeg.
  bool fancy = false;
  // Room for a row of the region, one sample on each side, and kRowPadding.
  uint8_t* upsampled = nullptr;
};

// Whether a component is upsampled by blending (jdsample.c). The component is `width` samples wide;
// a sample has `across` x `down` pixels. Narrow components and all other ratios repeat samples.
inline bool is_fancy(uint32_t across, uint32_t down, uint32_t width, uint32_t scale) {
  return scale < 8 && ((across == 2 && down <= 2 && width > 2) || (across == 1 && down == 2));
}

struct RowJob {
  Colour colour = Colour::kYcc;
  uint32_t left = 0;  // left column of the region
  uint32_t width = 0;
  size_t count = 0;  // number of channels
  std::array<Channel, 3> channels;
  // Room for a row of the region for each channel, with kRowPadding.
  std::array<uint8_t*, 3> planar{};
};

// Writes rows [first, end) of the image to `rgb`, job.width * 3 bytes each, without gaps. Nothing
// is written after the last row.
void make_rows(const RowJob& job, uint32_t first, uint32_t end, uint8_t* rgb);

// Returns row `y` of the image. It stays valid until the next call for the job.
base::PlanarRow make_planar_row(const RowJob& job, uint32_t y);

}  // namespace forebay::jpeg
