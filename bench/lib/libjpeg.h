// libjpeg-turbo alone, doing the tasks that Forebay's JPEG code is compared on (bench/jpeg.cc).
#pragma once

#include <cstdio>
#include <optional>
#include <vector>
// clang-format off: jpeglib.h needs cstdio before it
#include <jpeglib.h>
// clang-format on

#include "base/pixels.h"

namespace forebay::bench {

// Objects of libjpeg are kept between images, like ours. Errors end the program.
class Libjpeg {
 public:
  Libjpeg();
  ~Libjpeg();
  Libjpeg(const Libjpeg&) = delete;
  Libjpeg& operator=(const Libjpeg&) = delete;

  // Reads the coefficients and, unless `out` is null, copies them to it: component by component,
  // each block in natural order.
  void read_coefficients(base::Bytes file, std::vector<int16_t>* out);
  // Decodes to RGB, skipping rows and columns. Chroma at the sides of subsampled crops may differ
  // slightly from the whole image, because libjpeg treats the sides of the crop like sides of the
  // image.
  void decode(base::Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);
  // Transcodes without loss, with optimised tables and restart markers every `interval` MCUs, and
  // keeps all metadata. Returns the size.
  size_t transcode(base::Bytes file, uint32_t interval);

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct in_{};
  jpeg_decompress_struct with_markers_{};  // keeps the markers
  jpeg_compress_struct out_{};
  base::ByteVector row_;
};

}  // namespace forebay::bench
