#include "feed/batch/options.h"

#include "base/limits.h"
#include "image/options.h"

namespace forebay::feed {

Status check_options(const FeedOptions& options) {
  using image::check_range;
  RETURN_IF_ERROR(image::check_options(options.transform, options.tensor));
  const bool made = options.images == Images::kTensor || options.images == Images::kOwnSize;
  if (options.images == Images::kTensor && options.transform.size == image::Size{}) {
    return base::fail(base::Code::kInvalid,
                      "images in one tensor need one size: the transform has none");
  }
  if (options.targets != nullptr && !made) {
    return base::fail(base::Code::kInvalid,
                      "targets need images that the transform makes (kTensor or kOwnSize)");
  }
  if (!options.further.empty() && options.images == Images::kNone) {
    return base::fail(base::Code::kInvalid,
                      "further images need images of the samples themselves (not kNone)");
  }
  RETURN_IF_ERROR(check_range("global_batch", options.global_batch, 1u, base::kBatchMax));
  RETURN_IF_ERROR(check_range("world_size", options.world_size, 1, base::kWorldSizeMax));
  RETURN_IF_ERROR(check_range("rank", options.rank, 0, options.world_size - 1));
  if (options.global_batch % static_cast<uint32_t>(options.world_size) != 0) {
    return base::fail(base::Code::kInvalid, "global_batch {} is not a multiple of world_size {}",
                      options.global_batch, options.world_size);
  }
  RETURN_IF_ERROR(check_range("lanes", options.lanes, 1u, base::kLanesMax));
  RETURN_IF_ERROR(
      check_range("group_bytes", options.group_bytes, uint64_t{1}, base::kGroupBytesMax));
  RETURN_IF_ERROR(check_range("threads", options.threads, 0, base::kThreadsMax));
  RETURN_IF_ERROR(check_range("prefetch", options.prefetch, 1, base::kPrefetchMax));
  return {};
}

Status check_feed(const store::Dataset* dataset, const FeedOptions& options) {
  RETURN_IF_ERROR(check_options(options).at("feed"));
  if (dataset == nullptr) return base::fail(base::Code::kInvalid, "feed: no dataset");
  RETURN_IF_ERROR(check_source(options.order, dataset->sample_count()).at("feed"));
  for (const auto& further : options.further) {
    RETURN_IF_ERROR(check_further(*further, dataset->sample_count()).at("feed"));
  }
  if (options.targets == nullptr) return {};
  return check_targets(*options.targets, dataset->sample_count()).at("feed");
}

Status check_list(const FeedOptions& options, const SampleList& list, uint64_t samples) {
  RETURN_IF_ERROR(check_list(list, samples));
  if (list.step_ends.empty() || (options.world_size == 1 && !options.drop_last)) return {};
  return base::fail(base::Code::kInvalid,
                    "step_ends need world_size 1, and drop_last must be false");
}

}  // namespace forebay::feed
