// Rows of RGB from the samples of a decoded region.
#pragma once

#include "jpeg/scan_decoder.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time.
class RowMaker {
 public:
  // From here on rows are those of `region` of an image that `decoder` decoded.
  void begin(const Scan& scan, const ScanDecoder& decoder, size_t image, const base::Rect& region);
  // Row `y` of the image, region.width * 3 bytes.
  void make(uint32_t y, uint8_t* rgb);

 private:
  struct Channel {
    Plane plane;
    uint32_t across = 1;  // pixels of a sample
    uint32_t down = 1;
    bool fancy = false;
    std::vector<uint8_t> upsampled;
  };

  const uint8_t* upsample(Channel& channel, uint32_t y);

  Colour colour_ = Colour::kYcc;
  uint32_t left_ = 0;
  uint32_t width_ = 0;
  size_t count_ = 0;
  std::array<Channel, 3> channels_;
};

}  // namespace forebay::jpeg
