// libjpeg-turbo doing by itself what Forebay's JPEG code is compared with: bench/jpeg.cc.
#pragma once

#include <cstdio>
#include <optional>
#include <vector>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "base/pixels.h"

namespace forebay::bench {

// Its objects are kept between images, as ours are. Errors end the program.
class Libjpeg {
 public:
  Libjpeg();
  ~Libjpeg();
  Libjpeg(const Libjpeg&) = delete;
  Libjpeg& operator=(const Libjpeg&) = delete;

  // Reads the coefficients and, unless `out` is null, copies them there: component by component,
  // each block in natural order.
  void read_coefficients(base::Bytes file, std::vector<int16_t>* out);
  // RGB, by skipping rows and columns. Chroma at the sides of subsampled crops may differ by a
  // little from the image's, as it takes them for the image's own.
  void decode(base::Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);
  // The lossless transcode with optimised tables and restart markers every `interval` MCUs, all
  // metadata kept. Gives the size.
  size_t transcode(base::Bytes file, uint32_t interval);

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct in_{};
  jpeg_decompress_struct with_markers_{};  // keeps them
  jpeg_compress_struct out_{};
  base::ByteVector row_;
};

}  // namespace forebay::bench
