// From planes of samples to rows of RGB: libjpeg's fancy upsampling and colour conversion.
#pragma once

#include <array>

#include "base/pixels.h"
#include "jpeg/plane.h"
#include "jpeg/scan.h"

namespace forebay::jpeg {

// Bytes that may be written behind an upsampled row.
inline constexpr size_t kRowPadding = 128;
static_assert(kRowPadding >= base::kPlanarPadding);

struct Channel {
  Plane plane;
  uint32_t across = 1;  // pixels of a sample
  uint32_t down = 1;
  uint32_t first = 0;  // sample of a row that the region needs
  uint32_t samples = 0;
  // Samples between are blended, not repeated. The sample beyond a side of the image must then be
  // the last one again, as libjpeg has it.
  bool fancy = false;
  // A row of the region, one sample on each side and kRowPadding.
  uint8_t* upsampled = nullptr;
};

// jdsample.c: of a component `width` samples wide, `across` and `down` pixels each. Narrow ones are
// not worth it; all other ratios repeat samples.
inline bool is_fancy(uint32_t across, uint32_t down, uint32_t width, uint32_t scale) {
  return scale < 8 && ((across == 2 && down <= 2 && width > 2) || (across == 1 && down == 2));
}

struct RowJob {
  Colour colour = Colour::kYcc;
  uint32_t left = 0;  // of the region
  uint32_t width = 0;
  size_t count = 0;  // channels
  std::array<Channel, 3> channels;
  // A row of the region for each channel, and kRowPadding.
  std::array<uint8_t*, 3> planar{};
};

// Rows [first, end) of the image, job.width * 3 bytes each, one behind the other. Nothing is
// written behind the last row.
void make_rows(const RowJob& job, uint32_t first, uint32_t end, uint8_t* rgb);

// Row `y` of the image. Good until the next call for the job.
base::PlanarRow make_planar_row(const RowJob& job, uint32_t y);

}  // namespace forebay::jpeg
