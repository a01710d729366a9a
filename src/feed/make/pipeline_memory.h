// How a pipeline divides its memory between groups of chunks and batches.
#pragma once

#include "feed/batch/options.h"
#include "feed/make/batch_pool.h"
#include "feed/read/plan.h"

namespace forebay::feed {

// The share of memory_bytes_max that chunk indexes may take beside it.
inline constexpr uint64_t kIndexShare = 16;
inline constexpr uint64_t kBatchesHeld = 2;  // that the user holds, besides those made ahead

// What this rank's slices take in the plans of the epoch and the next one, before any of their
// bytes is there.
uint64_t plan_bytes(const EpochPlan& plan);

// How much of memory_bytes_max groups may take: twice what is needed, so that each lane's next
// group can be loaded in time; the rest is for batches. Where the batches' sizes vary, they get at
// least half of what is left. Errors: kNoMemory when the options cannot work within it.
Result<uint64_t> divide_memory(const FeedOptions& options, const EpochPlan& plan,
                               const BatchPool::Shape& shape);

}  // namespace forebay::feed
