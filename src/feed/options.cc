#include "feed/options.h"

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

Status check_crop(const image::RandomPaddedCrop& crop, uint32_t size) {
  return check_range("crop padding", crop.padding, 0u, size - 1);
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

Status check_crop(const image::RandomResizedCrop& crop, uint32_t) {
  return check_shape("crop", crop);
}

Status check(const image::TrainTransform& transform) {
  RETURN_IF_ERROR(check_range("size", transform.size, 1u, base::kImageSideMax));
  RETURN_IF_ERROR(check_range("erasing probability", transform.erasing.probability, 0.0, 1.0));
  RETURN_IF_ERROR(check_shape("erasing", transform.erasing));
  return std::visit([&](const auto& crop) { return check_crop(crop, transform.size); },
                    transform.crop);
}

Status check(const image::EvalTransform& transform) {
  RETURN_IF_ERROR(check_range("resize", transform.resize, 1u, base::kImageSideMax));
  return check_range("size", transform.size, 1u, transform.resize);
}

}  // namespace

Status check_options(const FeedOptions& options) {
  RETURN_IF_ERROR(
      std::visit([](const auto& transform) { return check(transform); }, options.transform));
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
    if (!(std > 0)) return fail(Code::kInvalid, "feed: std is {}, but must be above 0", std);
  }
  return {};
}

}  // namespace forebay::feed
