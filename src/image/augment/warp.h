// Moves the pixels of a picture by an affine or projective map, like torchvision v2's affine(),
// rotate() and perspective() on uint8 tensors.
#pragma once

#include <optional>

#include "image/augment/picture.h"
#include "image/transform/cut.h"

namespace forebay::image {

// Which position of a picture each position of the result shows. Positions are pixels from the
// middle of the result and of the picture: (x, y) shows (m[0] x + m[1] y + m[2], m[3] x + m[4] y +
// m[5]).
struct Affine {
  std::array<double, 6> m = {1, 0, 0, 0, 1, 0};
};
// Like Affine, but with pixels from the top left corner: (x, y) shows
// (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), both divided by m[6] x + m[7] y + 1.
struct Projection {
  std::array<double, 8> m = {1, 0, 0, 0, 1, 0, 0, 0};
};

struct WarpOptions {
  Interpolation interpolation = Interpolation::kNearest;  // or kBilinear
  // The colour outside the picture, RGB from 0 to 255. Unset: black, to which interpolated pixels
  // at the sides fade.
  std::optional<std::array<float, 3>> fill = {};
  uint8_t mask_fill = 0;  // the label outside the picture in a map of labels
};

// Which part of a warp is made, and from which part of the picture.
struct WarpWindow {
  Size picture;
  Rect source;  // the part of the picture that is given
  Rect result;  // the part of the result that is made; it shows nothing outside `source`
};
// Returns the window of a whole picture and its whole result.
inline WarpWindow whole_window(Size picture, Size result) {
  return {picture, whole(picture), whole(result)};
}
inline WarpWindow whole_window(Size picture) { return whole_window(picture, picture); }

struct WarpRow;

// Keeps its buffers between pictures. Nearest pixels are torchvision's, bit for bit; interpolated
// pixels are within one level.
class Warper {
 public:
  // `from` holds the window's source. `canvas` is the size of the whole result of an affine map.
  void warp(const Picture& from, const Affine& map, const WarpOptions& options,
            const WarpWindow& window, Size canvas, Picture* to);
  void warp(const Picture& from, const Projection& map, const WarpOptions& options,
            const WarpWindow& window, Picture* to);

 private:
  void fill_source(const Picture& from, uint32_t border);
  void warp_rows(const Picture& from, const WarpRow& map, const WarpOptions& options,
                 const WarpWindow& window, Picture* to);

  std::vector<uint32_t> pixels_;   // the picture, a number for each pixel
  std::vector<uint32_t> numbers_;  // for a row
  std::vector<float> weights_;
};

}  // namespace forebay::image
