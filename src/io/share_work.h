// Numbered work that threads share.
#pragma once

#include <functional>

#include "base/status.h"

namespace forebay::io {

using base::Status;

// Works on the numbers from `begin` up to but not including `end`; threads are counted from 0.
using RangeWork = std::function<Status(uint64_t begin, uint64_t end, size_t thread)>;

// The number of threads for share_work(): `threads`, or as many as can run at once if that is 0.
size_t threads_for(int threads);

// Calls `work` for all numbers below `count`, up to `step` of them at a time, from `threads`
// threads including the calling one, or from fewer if the system cannot start so many. After an
// error no further call begins, and the first error is returned. std::bad_alloc becomes kNoMemory.
Status share_work(uint64_t count, uint64_t step, size_t threads, const RangeWork& work);

}  // namespace forebay::io
