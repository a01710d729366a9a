// Work on many numbered things, shared among threads.
#pragma once

#include <functional>

#include "base/status.h"

namespace forebay::io {

using base::Status;

// Works on the numbers from `begin` up to but not including `end`; threads are counted from 0.
using RangeWork = std::function<Status(uint64_t begin, uint64_t end, size_t thread)>;

// How many threads to give share_work(): `threads`, or as many as can run at once where that is 0.
size_t threads_for(int threads);

// Calls `work` for all numbers below `count`, up to `step` of them at a time, from `threads`
// threads. The calling thread is one of them, and there are fewer where the system gives no more.
// After an error nothing more is begun, and the first error is returned; std::bad_alloc counts as
// one.
Status share_work(uint64_t count, uint64_t step, size_t threads, const RangeWork& work);

}  // namespace forebay::io
