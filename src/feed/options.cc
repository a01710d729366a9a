#include "feed/options.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

constexpr uint32_t kLanesMax = 1u << 16;
constexpr int kPrefetchMax = 1024;
constexpr uint64_t kGroupBytesMax = 1ull << 42;

template <class T>
Status check_range(const char* name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return fail(Code::kInvalid, "feed: {} is {}, but must be from {} to {}", name, value, min, max);
}

// Of a random rectangle: a RandomResizedCrop or a RandomErasing.
template <class Options>
Status check_shape(const char* what, const Options& options) {
  // Negated, so that a NaN does not pass.
  if (!(options.scale_min > 0 && options.scale_min <= options.scale_max &&
        options.scale_max <= 1)) {
    return fail(Code::kInvalid, "feed: {} scales {} to {} must be ascending, above 0, up to 1",
                what, options.scale_min, options.scale_max);
  }
  constexpr double kRatioMax = 64;  // what image::exact_log is made for
  if (!(options.ratio_min >= 1 / kRatioMax && options.ratio_min <= options.ratio_max &&
        options.ratio_max <= kRatioMax)) {
    return fail(Code::kInvalid, "feed: {} ratios {} to {} must be ascending, from 1/64 to 64", what,
                options.ratio_min, options.ratio_max);
  }
  return {};
}

Status check_size(const char* what, const image::Size& size) {
  if (size.width >= 1 && size.width <= base::kImageSideMax && size.height >= 1 &&
      size.height <= base::kImageSideMax) {
    return {};
  }
  return fail(Code::kInvalid, "feed: {} is {} x {} pixels, but must be from 1 x 1 to {} x {}", what,
              size.width, size.height, base::kImageSideMax, base::kImageSideMax);
}

Status check_resize(const std::optional<image::Resize>& resize) {
  if (!resize) return {};
  if (const auto* const size = std::get_if<image::Size>(&*resize)) {
    return check_size("resize", *size);
  }
  return check_range("resize", std::get<image::ShortSide>(*resize).pixels, 1u, base::kImageSideMax);
}

Status check_crop(const image::RandomResizedCrop& crop) { return check_shape("crop", crop); }

// What the padding is too much for is known with each image.
Status check_crop(const image::RandomCrop& crop) {
  const image::Padding& p = crop.padding;
  const uint32_t most = std::max(std::max(p.left, p.right), std::max(p.top, p.bottom));
  RETURN_IF_ERROR(check_range("crop padding", most, 0u, base::kImageSideMax));
  return check_resize(crop.resize);
}

Status check_crop(const image::CentreCrop& crop) { return check_resize(crop.resize); }

Status check_erasing(const image::RandomErasing& erasing, image::DType dtype) {
  RETURN_IF_ERROR(check_range("erasing probability", erasing.probability, 0.0, 1.0));
  RETURN_IF_ERROR(check_shape("erasing", erasing));
  const bool bytes = dtype == image::DType::kUint8;
  if (erasing.noise && bytes) {
    return fail(Code::kInvalid, "feed: erasing with noise needs samples of floating-point numbers");
  }
  for (const float value : erasing.value) {
    const bool fits =
        bytes ? value >= 0 && value <= 255 && value == std::floor(value) : std::isfinite(value);
    if (fits) continue;
    return fail(Code::kInvalid, "feed: erasing value is {}, but must be a {}", value,
                bytes ? "whole number from 0 to 255, as samples are bytes" : "finite number");
  }
  return {};
}

Status check_transform(const image::Transform& transform, image::DType dtype) {
  RETURN_IF_ERROR(check_size("size", transform.size));
  RETURN_IF_ERROR(check_range("flip probability", transform.flip, 0.0, 1.0));
  RETURN_IF_ERROR(check_range("vertical flip probability", transform.vertical_flip, 0.0, 1.0));
  RETURN_IF_ERROR(check_erasing(transform.erasing, dtype));
  return std::visit([](const auto& crop) { return check_crop(crop); }, transform.crop);
}

}  // namespace

Status check_options(const FeedOptions& options) {
  RETURN_IF_ERROR(check_transform(options.transform, options.tensor.dtype));
  RETURN_IF_ERROR(check_range("global_batch", options.global_batch, 1u, base::kBatchMax));
  RETURN_IF_ERROR(check_range("world_size", options.world_size, 1, base::kWorldSizeMax));
  RETURN_IF_ERROR(check_range("rank", options.rank, 0, options.world_size - 1));
  if (options.global_batch % static_cast<uint32_t>(options.world_size) != 0) {
    return fail(Code::kInvalid, "feed: global_batch {} is no multiple of world_size {}",
                options.global_batch, options.world_size);
  }
  RETURN_IF_ERROR(check_range("lanes", options.lanes, 1u, kLanesMax));
  RETURN_IF_ERROR(check_range("group_bytes", options.group_bytes, uint64_t{1}, kGroupBytesMax));
  RETURN_IF_ERROR(check_range("threads", options.threads, 0, base::kThreadsMax));
  RETURN_IF_ERROR(check_range("prefetch", options.prefetch, 1, kPrefetchMax));
  for (const float std : options.tensor.std) {
    if (!(std > 0 && std::isfinite(std))) {
      return fail(Code::kInvalid, "feed: std is {}, but must be above 0", std);
    }
  }
  return {};
}

}  // namespace forebay::feed
