// Which region of an image a sample is cut to.
#pragma once

#include <optional>
#include <variant>

#include "base/random.h"
#include "image/border.h"

namespace forebay::image {

// torchvision.transforms.v2.RandomResizedCrop's parameters and defaults.
struct RandomResizedCrop {
  double scale_min = 0.08;  // share of the image's area
  double scale_max = 1.0;
  double ratio_min = 3.0 / 4.0;  // width to height
  double ratio_max = 4.0 / 3.0;
};

// What the whole image is resized to: ShortSide keeps its shape, the long side rounded down.
struct ShortSide {
  uint32_t pixels = 256;
};
using Resize = std::variant<ShortSide, Size>;

// Pixels on each side.
struct Padding {
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t right = 0;
  uint32_t bottom = 0;
};

// torchvision.transforms.v2.RandomCrop of the image, resized or as it is, with a border around it.
struct RandomCrop {
  std::optional<Resize> resize = {};
  Padding padding = {};
  // Whether an image that is too small even so gets more padding; else it is an error.
  bool pad_if_needed = false;
  Border border = {};
};

// torchvision.transforms.v2.CenterCrop of the image, resized or as it is; what it lacks is black.
struct CentreCrop {
  std::optional<Resize> resize = {};
};

// All of the image, resized or as it is. An image that then has another size than the sample cannot
// be used: it is an error, never cropped.
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
  // For red, green and blue, on the sample's scale: after normalising, where it is normalised.
  std::array<float, 3> value = {0, 0, 0};
  bool noise = false;  // instead: numbers of the standard normal distribution
};

// What of a sample is erased, with torchvision's distribution: ten tries for a rectangle that is
// smaller than the sample both ways, else nothing.
std::optional<Rect> draw_erased(const RandomErasing& options, Size size, base::Random& random);

// Draws a crop with torchvision's distribution (ten tries, then the largest centre crop of an
// allowed ratio). The same on any machine, compiler and device: only exactly rounded operations.
Rect draw_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height,
               base::Random& random);

// kTooBig when a side is above base::kImageSideMax, as a strip's may be.
Result<Size> resized_size(const std::optional<Resize>& resize, Size image);

// Where a crop of `size` of an image (resized, without its padding) lies: any place is as likely.
// kInvalid when the image is too small: for the crop, or for a border that mirrors it.
Result<Window> draw_window(const RandomCrop& crop, Size image, Size size, base::Random& random);

// The size of an image once it is resized, which must be `size`, or it is kInvalid.
Result<Size> whole_size(const WholeImage& whole, Size image, Size size);

// The middle of an image; reaches over its sides where it is smaller than `size`.
Window centre_window(Size image, Size size);

}  // namespace forebay::image
