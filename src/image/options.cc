#include "image/options.h"

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
    return fail(Code::kInvalid, "{} scales {} to {} must be ascending, above 0, up to 1", what,
                options.scale_min, options.scale_max);
  }
  constexpr double kMost = base::kAspectRatioMax;
  if (!(options.ratio_min >= 1 / kMost && options.ratio_min <= options.ratio_max &&
        options.ratio_max <= kMost)) {
    return fail(Code::kInvalid, "{} ratios {} to {} must be ascending, from 1/64 to 64", what,
                options.ratio_min, options.ratio_max);
  }
  return {};
}

Status check_size(const char* what, const Size& size) {
  if (size.width >= 1 && size.width <= base::kImageSideMax && size.height >= 1 &&
      size.height <= base::kImageSideMax) {
    return {};
  }
  return fail(Code::kInvalid, "{} is {} x {} pixels, but must be from 1 x 1 to {} x {}", what,
              size.width, size.height, base::kImageSideMax, base::kImageSideMax);
}

Status check_resize(const std::optional<Resize>& resize) {
  if (!resize) return {};
  if (const auto* const size = std::get_if<Size>(&*resize)) {
    return check_size("resize", *size);
  }
  return check_range("resize", std::get<ShortSide>(*resize).pixels, 1u, base::kImageSideMax);
}

Status check_crop(const RandomResizedCrop& crop) { return check_shape("crop", crop); }

// Whether the padding is too large for an image is known only with each image.
Status check_crop(const RandomCrop& crop) {
  const Padding& p = crop.padding;
  const uint32_t most = std::max(std::max(p.left, p.right), std::max(p.top, p.bottom));
  RETURN_IF_ERROR(check_range("crop padding", most, 0u, base::kImageSideMax));
  return check_resize(crop.resize);
}

Status check_crop(const CentreCrop& crop) { return check_resize(crop.resize); }

Status check_crop(const WholeImage& crop) { return check_resize(crop.resize); }

Status check_erasing(const RandomErasing& erasing, DType dtype) {
  RETURN_IF_ERROR(check_range("erasing probability", erasing.probability, 0.0, 1.0));
  RETURN_IF_ERROR(check_shape("erasing", erasing));
  const bool bytes = dtype == DType::kUint8;
  if (erasing.noise && bytes) {
    return fail(Code::kInvalid, "erasing with noise needs samples of floating-point numbers");
  }
  for (const float value : erasing.value) {
    const bool fits =
        bytes ? value >= 0 && value <= 255 && value == std::floor(value) : std::isfinite(value);
    if (fits) continue;
    return fail(Code::kInvalid, "erasing value is {}, but must be a {}", value,
                bytes ? "whole number from 0 to 255, as samples are bytes" : "finite number");
  }
  return {};
}

}  // namespace

Status check_options(const Transform& transform, const TensorOptions& tensor) {
  RETURN_IF_ERROR(check_size("size", transform.size));
  RETURN_IF_ERROR(check_range("flip probability", transform.flip, 0.0, 1.0));
  RETURN_IF_ERROR(check_range("vertical flip probability", transform.vertical_flip, 0.0, 1.0));
  RETURN_IF_ERROR(check_steps(transform.steps, transform.size));
  RETURN_IF_ERROR(check_erasing(transform.erasing, tensor.dtype));
  for (const float std : tensor.std) {
    if (!(std > 0 && std::isfinite(std))) {
      return fail(Code::kInvalid, "std is {}, but must be above 0", std);
    }
  }
  return std::visit([](const auto& crop) { return check_crop(crop); }, transform.crop);
}

}  // namespace forebay::image
