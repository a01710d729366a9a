// Divides a pipeline's memory between groups of chunks and batches.
#pragma once

#include "feed/batch/options.h"
#include "feed/make/batch_pool.h"
#include "feed/read/plan.h"

namespace forebay::feed {

// Chunk indexes may take 1 / kIndexShare of memory_bytes_max, in addition to that limit.
inline constexpr uint64_t kIndexShare = 16;
// How many batches the user holds, in addition to the batches that are prepared ahead.
inline constexpr uint64_t kBatchesHeld = 2;

// Returns the memory for the descriptions of this rank's slices, in the plans of the epoch and the
// next one, without the slices' own bytes.
uint64_t plan_bytes(const EpochPlan& plan);

// Returns how much of memory_bytes_max groups may take: twice what is needed, so that each lane's
// next group can be loaded in time. The rest is for batches. If the batches' sizes vary, batches
// get at least half of the memory that nobody needs. Errors: kNoMemory when the options cannot work
// within memory_bytes_max.
Result<uint64_t> divide_memory(const FeedOptions& options, const EpochPlan& plan,
                               const BatchPool::Shape& shape);

}  // namespace forebay::feed
