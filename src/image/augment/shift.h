// Affine maps that move each row of a picture as a whole, or each column: translations, and shears
// along one axis. Neighbours stay neighbours, so that no pixel has to be looked up.
#pragma once

#include "image/augment/warp.h"

namespace forebay::image {

// Keeps its buffers between pictures.
class Shifter {
 public:
  // Makes what Warper makes with such a map: interpolated pixels are within one level of
  // torchvision's, and nearest ones are equal. False, and nothing happens, with other maps, and
  // where rounding errors of the map could count.
  bool shift(const Picture& from, const Affine& map, const WarpOptions& options,
             const WarpWindow& window, Picture* to);

 private:
  // For a map that moves each row.
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
