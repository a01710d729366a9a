// Makes rows of RGB from the samples of a decoded region.
#pragma once

#include "jpeg/kernels/rgb_rows.h"
#include "jpeg/region_batch.h"

namespace forebay::jpeg {

// Keeps its buffers between images. Used by one thread at a time.
class RowMaker final : public base::Rows {
 public:
  // From now on, rows come from `region` of the image with this number in `decoder`, which has run.
  void begin(const Scan& scan, const RegionBatch& decoder, size_t image, const base::Rect& region);

  uint32_t width() const override { return region_.width; }
  uint32_t height() const override { return region_.height; }
  base::PlanarRow row(uint32_t y) override { return make_planar_row(job_, region_.y + y); }
  void move_to(base::Pixels* out) override;

 private:
  base::Rect region_;
  RowJob job_;
  std::vector<uint8_t> buffers_;
};

}  // namespace forebay::jpeg
