// Rows of RGB from the samples of a decoded region.
#pragma once

#include "jpeg/rgb_rows.h"
#include "jpeg/scan_decoder.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time.
class RowMaker {
 public:
  // From here on rows are those of `region` of an image that `decoder` decoded.
  void begin(const Scan& scan, const ScanDecoder& decoder, size_t image, const base::Rect& region);
  // Rows [first, end) of the image, as make_rows().
  void make(uint32_t first, uint32_t end, uint8_t* rgb) const { make_rows(job_, first, end, rgb); }

 private:
  RowJob job_;
  std::vector<uint8_t> upsampled_;
};

}  // namespace forebay::jpeg
