// Decides which region of an image a sample is cut to. Draws regions; resize.h and border.h apply
// them.
#pragma once

#include <optional>
#include <variant>

#include "base/limits.h"
#include "base/random.h"
#include "image/transform/border.h"

namespace forebay::image {

// torchvision.transforms.v2.RandomResizedCrop's parameters and defaults.
struct RandomResizedCrop {
  double scale_min = 0.08;  // share of the image's area
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width to height
  double ratio_max = 4.0 / 3.0;
};

// The size that the whole image is resized to. With ShortSide the image keeps its shape, and its
// other side is rounded down.
struct ShortSide {
  uint32_t pixels = 256;                 // 0: only `longest` counts, which the long side then has
  std::optional<uint32_t> longest = {};  // pixels; the most of the long side
};
using Resize = std::variant<ShortSide, Size>;

// Pixels on each side.
struct Padding {
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t right = 0;
  uint32_t bottom = 0;
};

// torchvision.transforms.v2.RandomCrop of the image, optionally resized first, with a border around
// it.
struct RandomCrop {
  std::optional<Resize> resize = {};
  Padding padding = {};
  // Whether an image that is too small even with its padding gets more padding; otherwise such an
  // image is an error.
  bool pad_if_needed = false;
  Border border = {};
};

// torchvision.transforms.v2.CenterCrop of the image, optionally resized first. Missing pixels are
// black.
struct CentreCrop {
  std::optional<Resize> resize = {};
};

// The whole image, optionally resized. It is an error when the image then differs in size from the
// sample; nothing is cropped.
struct WholeImage {
  std::optional<Resize> resize = {};
};

// torchvision.transforms.v2.RandomErasing's parameters and defaults: a rectangle of a normalised
// sample becomes a colour, or noise (Zhong et al., "Random Erasing Data Augmentation", AAAI 2020).
struct RandomErasing {
  double probability = 0.5;
  double scale_min = 0.02;  // share of the sample's area
  double scale_max = 0.33;
  double ratio_min = 0.3;  // height to width
  double ratio_max = 3.3;
  // Values for red, green and blue, on the scale of the sample: after normalising when the sample
  // is normalised.
  std::array<float, 3> value = {0, 0, 0};
  bool noise = false;  // fill with numbers of the standard normal distribution instead
};

// Draws the part of a sample that is erased, with torchvision's distribution: ten tries for a
// rectangle that is smaller than the sample in both directions, otherwise nothing.
std::optional<Rect> draw_erased(const RandomErasing& options, Size size, base::Random& random);

// Draws a crop with torchvision's distribution (ten tries, then the largest centre crop of an
// allowed ratio). The result is the same on any machine, compiler and device, because only exactly
// rounded operations are used.
Rect draw_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height,
               base::Random& random);

// Returns the size of a resized image. kTooBig if a side is above `side_max`, and kInvalid if it is
// 0, which can happen to long, thin images.
Result<Size> resized_size(const std::optional<Resize>& resize, Size image,
                          uint32_t side_max = base::kImageSideMax);

// Returns kInvalid if a border mirrors an image more than once, which torchvision refuses too.
Status check_mirror(BorderKind kind, const Padding& padding, Size image);

// Draws where a crop of `size` lies in an image (after resizing, without its padding); all places
// are equally likely. kInvalid when the image is too small for the crop, or for a border that
// mirrors it.
Result<Viewport> draw_viewport(const RandomCrop& crop, Size image, Size size, base::Random& random);

// Returns the size of the resized image. kInvalid when it differs from `size`.
Result<Size> whole_size(const WholeImage& whole, Size image, Size size);

// Returns the middle of an image. It extends beyond the sides when the image is smaller than
// `size`.
Viewport centre_viewport(Size image, Size size);

}  // namespace forebay::image
