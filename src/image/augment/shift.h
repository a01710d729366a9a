// Affine maps that move each row of a picture as a whole, or each column: translations, and shears
// along one axis. Neighbouring pixels stay neighbours, so no pixel has to be looked up by itself.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

// Keeps its buffers between pictures.
class Shifter {
 public:
  // Does the same as Warper::warp() for such a map: interpolated pixels are within one level of
  // torchvision's, and nearest pixels are equal. Returns false, and does nothing, for other maps
  // and if rounding errors of the map could change pixels.
  bool shift(const Picture& from, const Affine& map, const WarpOptions& options,
             const WarpWindow& window, Picture* to);

 private:
  // Does the same for a map that moves each row.
  void shift_rows(const Picture& from, const Affine& map, const WarpOptions& options,
                  const WarpWindow& window, Picture* to);
  const uint8_t* bordered(size_t buffer, const Picture& from, size_t channel, int64_t line,
                          const WarpWindow& window);

  std::array<base::ByteVector, 2> lines_;  // rows with a black border
  base::ByteVector outside_;
  std::vector<float> shares_;
  Picture columns_;
  Picture shifted_;
};

}  // namespace forebay::image
