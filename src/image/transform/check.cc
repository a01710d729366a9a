#include "image/transform/check.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

// Checks the options of a random rectangle: of a RandomResizedCrop or a RandomErasing.
template <class Options>
Status check_shape(const char* what, const Options& options) {
  // The condition is negated so that a NaN does not pass.
  if (!(options.scale_min > 0 && options.scale_min <= options.scale_max &&
        options.scale_max <= 1)) {
    return fail(Code::kInvalid, "{} scales {} to {} must ascend, above 0 and up to 1", what,
                options.scale_min, options.scale_max);
  }
  constexpr double kMost = base::kAspectRatioMax;
  if (!(options.ratio_min >= 1 / kMost && options.ratio_min <= options.ratio_max &&
        options.ratio_max <= kMost)) {
    return fail(Code::kInvalid, "{} ratios {} to {} must ascend, from 1/64 to 64", what,
                options.ratio_min, options.ratio_max);
  }
  return {};
}

Status check_resize(const std::optional<Resize>& resize) {
  if (!resize) return {};
  if (const auto* const size = std::get_if<Size>(&*resize)) {
    return check_size("resize", *size);
  }
  const auto& [pixels, longest] = std::get<ShortSide>(*resize);
  if (!longest) return check_range("resize", pixels, 1u, base::kImageSideMax);
  RETURN_IF_ERROR(check_range("resize", pixels, 0u, base::kImageSideMax));
  return check_range("the longest side", *longest, pixels + 1, base::kImageSideMax);
}

struct CropChecker {
  Status operator()(const RandomResizedCrop& crop) const { return check_shape("crop", crop); }
  // Whether the padding is too large for an image is known only with each image.
  Status operator()(const RandomCrop& crop) const {
    RETURN_IF_ERROR(check_padding(crop.padding));
    return check_resize(crop.resize);
  }
  Status operator()(const CentreCrop& crop) const { return check_resize(crop.resize); }
  Status operator()(const WholeImage& crop) const { return check_resize(crop.resize); }
};

}  // namespace

Status check_size(const char* what, Size size) {
  if (size.width >= 1 && size.width <= base::kImageSideMax && size.height >= 1 &&
      size.height <= base::kImageSideMax) {
    return {};
  }
  return fail(Code::kInvalid, "{} is {} x {} pixels, but must be from 1 x 1 to {} x {}", what,
              size.width, size.height, base::kImageSideMax, base::kImageSideMax);
}

Status check_padding(const Padding& padding) {
  const uint32_t most = std::max({padding.left, padding.right, padding.top, padding.bottom});
  return check_range("crop padding", most, 0u, base::kImageSideMax);
}

Status check_crop(const Crop& crop) { return std::visit(CropChecker(), crop); }

Status check_erasing(const RandomErasing& erasing, DType dtype) {
  RETURN_IF_ERROR(check_range("erasing probability", erasing.probability, 0.0, 1.0));
  RETURN_IF_ERROR(check_shape("erasing", erasing));
  const bool bytes = dtype == DType::kUint8;
  if (erasing.noise && bytes) {
    return fail(Code::kInvalid, "erasing with noise needs floating-point samples");
  }
  for (const float value : erasing.value) {
    const bool fits =
        bytes ? value >= 0 && value <= 255 && value == std::floor(value) : std::isfinite(value);
    if (fits) continue;
    return fail(Code::kInvalid, "erasing value is {}, but must be a {}", value,
                bytes ? "whole number from 0 to 255, because samples are bytes" : "finite number");
  }
  return {};
}

}  // namespace forebay::image
