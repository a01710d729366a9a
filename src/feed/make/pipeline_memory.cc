#include "feed/make/pipeline_memory.h"

#include <algorithm>

#include "feed/read/loaded.h"

namespace forebay::feed {

using base::Code;
using base::fail;

namespace {

// Memory for slices that are read ahead, if there is enough: about what a link of 10 Gbit/s carries
// in a round trip of 25 ms.
constexpr uint64_t kSlicesAheadBytes = 32'000'000;

// Returns the error for options that cannot work.
Status too_little_memory(uint64_t memory_bytes_max, uint64_t chunks, uint64_t batches,
                         uint64_t slices) {
  const bool is_for_slices = slices > std::max(chunks, batches);
  const std::string_view lower = chunks > batches
                                     ? "what is shuffled together (lanes, their groups, the chunks)"
                                     : "the batches prepared ahead, or their size";
  const std::string also =
      fmt::format("{} describe this rank's slices of the epoch, ", base::human_bytes(slices));
  return fail(Code::kNoMemory,
              "feed: {} of chunks and {} of batches must be in memory at once, {}but "
              "memory_bytes_max is {}; {}{}",
              base::human_bytes(chunks), base::human_bytes(batches), slices > 0 ? also : "",
              base::human_bytes(memory_bytes_max),
              is_for_slices ? "use more ranks, or raise it" : "raise it, or lower ",
              is_for_slices ? "" : lower);
}

}  // namespace

uint64_t plan_bytes(const EpochPlan& plan) {
  constexpr uint64_t kPlans = 2;
  constexpr uint64_t kBytesEach = sizeof(Load) + sizeof(size_t) + sizeof(LoadedGroup);
  return plan.has_slices ? kPlans * kBytesEach * plan.load_numbers.size() : 0;
}

Result<uint64_t> divide_memory(const FeedOptions& options, const EpochPlan& plan,
                               const BatchPool::Shape& shape) {
  const uint64_t batches = (static_cast<uint64_t>(options.prefetch) + kBatchesHeld) * shape.bytes();
  const uint64_t slices = plan_bytes(plan);
  const auto needed = base::checked_add(plan.bytes_needed + slices, batches);
  if (!needed || *needed > options.memory_bytes_max) {
    return tl::unexpected(
        too_little_memory(options.memory_bytes_max, plan.bytes_needed, batches, slices));
  }
  const uint64_t left = options.memory_bytes_max - *needed;
  const uint64_t ahead =
      plan.has_slices ? std::max(plan.bytes_needed, kSlicesAheadBytes) : plan.bytes_needed;
  return plan.bytes_needed + std::min(ahead, shape.varies() ? left / 2 : left);
}

}  // namespace forebay::feed
