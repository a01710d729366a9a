// A JPEG made on the spot, for tests: libjpeg's own encoder on a seeded pattern.
#pragma once

#include <cstdio>
#include <cstdlib>
// After cstdio, which it needs.
#include <jpeglib.h>

#include "base/bytes.h"
#include "base/random.h"

namespace forebay::store {

inline base::ByteVector test_jpeg(int width, int height, uint64_t seed) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 85, TRUE);
  jpeg_start_compress(&info, TRUE);
  base::Random random(seed, base::Purpose::kTest);
  base::ByteVector row(static_cast<size_t>(width) * 3);
  for (int y = 0; y < height; ++y) {
    for (size_t x = 0; x < row.size(); ++x) {
      row[x] = static_cast<uint8_t>((x + static_cast<size_t>(y) + random.below(64)) & 0xff);
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  base::ByteVector out(data, data + size);
  jpeg_destroy_compress(&info);
  std::free(data);
  return out;
}

}  // namespace forebay::store
