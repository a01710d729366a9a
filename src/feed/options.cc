#include "feed/options.h"

#include "base/limits.h"
#include "image/options.h"

namespace forebay::feed {

namespace {

constexpr uint32_t kLanesMax = 1u << 16;
constexpr int kPrefetchMax = 1024;
constexpr uint64_t kGroupBytesMax = 1ull << 42;

}  // namespace

Status check_options(const FeedOptions& options) {
  using image::check_range;
  RETURN_IF_ERROR(image::check_options(options.transform, options.tensor));
  RETURN_IF_ERROR(check_range("global_batch", options.global_batch, 1u, base::kBatchMax));
  RETURN_IF_ERROR(check_range("world_size", options.world_size, 1, base::kWorldSizeMax));
  RETURN_IF_ERROR(check_range("rank", options.rank, 0, options.world_size - 1));
  if (options.global_batch % static_cast<uint32_t>(options.world_size) != 0) {
    return base::fail(base::Code::kInvalid, "global_batch {} is no multiple of world_size {}",
                      options.global_batch, options.world_size);
  }
  RETURN_IF_ERROR(check_range("lanes", options.lanes, 1u, kLanesMax));
  RETURN_IF_ERROR(check_range("group_bytes", options.group_bytes, uint64_t{1}, kGroupBytesMax));
  RETURN_IF_ERROR(check_range("threads", options.threads, 0, base::kThreadsMax));
  RETURN_IF_ERROR(check_range("prefetch", options.prefetch, 1, kPrefetchMax));
  return {};
}

Status check_step_ends(const FeedOptions& options, uint64_t samples) {
  const auto& ends = options.step_ends;
  if (ends.empty()) return {};
  if (options.world_size != 1 || options.shuffle || options.drop_last) {
    return base::fail(base::Code::kInvalid,
                      "step_ends go with one rank, storage order, and every sample");
  }
  uint64_t begin = 0;
  for (const uint64_t end : ends) {
    if (end <= begin || end - begin > options.global_batch) {
      return base::fail(base::Code::kInvalid,
                        "a step goes from position {} to {}; it must have from 1 to global_batch "
                        "({}) samples",
                        begin, end, options.global_batch);
    }
    begin = end;
  }
  if (begin == samples) return {};
  return base::fail(base::Code::kInvalid,
                    "the steps end at position {}, the dataset has {} samples", begin, samples);
}

}  // namespace forebay::feed
