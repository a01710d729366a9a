// For tests: grey PNGs, such as maps of labels.
#pragma once

#include <png.h>

#include "base/bytes.h"

namespace forebay::image {

// Labels by a formula, below 256.
inline base::ByteVector grey_png(uint32_t width, uint32_t height, uint32_t seed) {
  base::ByteVector pixels;
  for (uint32_t i = 0; i < width * height; ++i) {
    pixels.push_back(static_cast<uint8_t>((i * (seed + 3) + i / width) >> 3));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_GRAY;
  png_alloc_size_t size = 1024 + pixels.size() * 2;
  base::ByteVector out(size);
  FOREBAY_CHECK(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr));
  out.resize(size);
  return out;
}

}  // namespace forebay::image
