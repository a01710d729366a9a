// Which region of an image a sample is cut to.
#pragma once

#include "base/pixels.h"
#include "base/random.h"
#include "image/decode.h"

namespace forebay::image {

// torchvision.transforms.v2.RandomResizedCrop's parameters and defaults.
struct RandomResizedCrop {
  double scale_min = 0.08;  // share of the image's area
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width to height
  double ratio_max = 4.0 / 3.0;
};

// torchvision.transforms.v2.RandomCrop with padding_mode="reflect", behind a Resize of the short
// side where the image has another size: usual for images of about 32 pixels, which a resized crop
// would blur.
struct RandomPaddedCrop {
  uint32_t padding = 4;  // pixels on each side
};

// torchvision.transforms.v2.RandomErasing's parameters and defaults: a rectangle of a normalised
// sample becomes 0 (Zhong et al., "Random Erasing Data Augmentation", AAAI 2020).
struct RandomErasing {
  double probability = 0.5;
  double scale_min = 0.02;  // share of the sample's area
  double scale_max = 0.33;
  double ratio_min = 0.3;  // height to width
  double ratio_max = 3.3;
};

// What of a sample of size x size is erased, with torchvision's distribution: ten tries for a
// rectangle that is smaller than the sample both ways, else nothing.
std::optional<Rect> draw_erased(const RandomErasing& options, uint32_t size, base::Random& random);

// Where a crop of size x size of an image with `padding` around it begins: any place is as likely.
// `width` and `height` without the padding, with it at least `size`.
Rect draw_padded_crop(const RandomPaddedCrop& options, uint32_t width, uint32_t height,
                      uint32_t size, base::Random& random);

// Cuts `crop` of an image with `padding` around it, which mirrors the image at its border pixels,
// row by row. `padding` is less than either side. Keeps its buffer between images.
class PaddedCrop {
 public:
  void begin(Size image, uint32_t padding, const Rect& crop);
  // The crop's part of a row of the image; good until the next call.
  base::PlanarRow cut(const base::PlanarRow& row);
  // Calls take(number) for each row of the crop that is made of row `y` of the image.
  template <class Take>
  void each_place(uint32_t y, const Take& take) const {
    const int64_t last = int64_t{image_.height} - 1;
    const auto take_if = [&](bool there, int64_t at) {
      at += int64_t{padding_} - crop_.y;
      if (there && at >= 0 && at < crop_.height) take(static_cast<uint32_t>(at));
    };
    take_if(true, y);
    take_if(y > 0, -int64_t{y});
    take_if(y < last, 2 * last - y);
  }

 private:
  // Where pixel `x` of the crop lies in its row.
  size_t mirrored(uint32_t x) const;

  Size image_;
  uint32_t padding_ = 0;
  Rect crop_;
  uint32_t begin_ = 0;  // columns [begin, end) of the crop lie in the image
  uint32_t end_ = 0;
  base::ByteVector row_;
};

// Draws a crop with torchvision's distribution (ten tries, then the largest centre crop of an
// allowed ratio). The same on any machine, compiler and device: only exactly rounded operations.
Rect draw_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height,
               base::Random& random);

// Validation, as torchvision's Resize(resize) on the short side then CenterCrop(size): the size
// the whole image is resized to, and the region of the resized image that is kept.
struct CentreCrop {
  Size resized;
  Rect kept;
};
// `size` <= `resize` are pixels; width and height above 0. kTooBig when the resized image's long
// side is above base::kImageSideMax, as a strip's may be.
Result<CentreCrop> centre_crop(uint32_t width, uint32_t height, uint32_t resize, uint32_t size);

// exp(x) and log(x) by additions, multiplications and divisions only, so that every machine gives
// the same bits; within 2 units in the last place for what crops need (|x| <= 4; x in [1/64, 64]).
double exact_exp(double x);
double exact_log(double x);

}  // namespace forebay::image
