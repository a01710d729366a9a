// A cut takes a region of a picture, resizes it, and keeps a part of the result, perhaps with a
// border around it. All crops, resizes and paddings of samples and of augmentations are cuts.
#pragma once

#include "image/transform/crop.h"
#include "image/transform/resize.h"

namespace forebay::image {

struct Cut {
  Rect region;   // of the picture
  Size resized;  // the size that the region is resized to
  Rect kept;     // the part of the resized region that is used
  // Set if the cut extends beyond the resized picture. It then shows `viewport` of a picture of
  // size `image`, and `kept` is the part of the viewport inside the picture.
  struct Outside {
    Size image;
    Viewport viewport;
    Border border;
  };
  std::optional<Outside> outside = {};
  Interpolation interpolation = Interpolation::kBilinear;

  Size size() const { return outside ? outside->viewport.size : Size{kept.width, kept.height}; }
  bool resizes() const { return resized != Size{region.width, region.height}; }
};

inline Rect whole(Size picture) { return {0, 0, picture.width, picture.height}; }
// Returns a cut of the whole picture, resized unless it has the size `resized`.
Cut whole_cut(Size picture, Size resized, Interpolation interpolation = Interpolation::kBilinear);
// Returns a cut that shows a viewport of the picture, which is first resized unless it has the size
// `resized`.
Cut viewport_cut(Size picture, Size resized, const Viewport& viewport, const Border& border);

using Crop = std::variant<RandomResizedCrop, RandomCrop, CentreCrop, WholeImage>;
// Draws a crop of `size`. With a WholeImage, the size {} accepts any size of the result. kInvalid
// and kTooBig when the picture does not fit the crop (crop.h).
Result<Cut> draw_cut(const Crop& crop, Size size, Size picture, base::Random& random);

// Returns one cut that gives the same pixels as `first` followed by `second`, if there is one.
std::optional<Cut> joined(const Cut& first, const Cut& second);

// Keeps its buffers between pictures. Used by one thread at a time.
class Cutter {
 public:
  // Calls take(y, row) for each row of the cut, in any order. `box` is the cut's region in the
  // pixels of `from`.
  template <class TakeRow>
  void cut(base::Rows& from, const Box& box, const Cut& cut, const TakeRow& take) {
    Resizer& resizer = resizer_for(cut.interpolation);
    if (!cut.outside) {
      resizer.resize(from, box, cut.resized, cut.kept, take);
      return;
    }
    view_.begin(cut.outside->image, cut.outside->viewport, cut.outside->border);
    view_.each_empty(take);
    const uint32_t top = view_.part().y;
    resizer.resize(from, box, cut.resized, cut.kept, [&](uint32_t y, const PlanarRow& row) {
      view_.each_place(top + y, [&](uint32_t at) { take(at, view_.cut(row)); });
    });
  }

 private:
  Resizer& resizer_for(Interpolation interpolation);

  std::array<std::optional<Resizer>, 4> resizers_;  // for each interpolation
  ViewportRows view_;
};

}  // namespace forebay::image
