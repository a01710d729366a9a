// Work on many numbered things, shared among threads.
#pragma once

#include <functional>

#include "base/status.h"

namespace forebay::store {

using base::Status;

// Numbers from `begin` to before `end`, by thread number `thread`, counted from 0.
using Share = std::function<Status(uint64_t begin, uint64_t end, size_t thread)>;

// The threads that share_work takes: `threads`, or where that is 0 as many as may run at once.
size_t threads_for(int threads);

// Calls `share` for all numbers below `count`, up to `step` of them at a time, from `threads`
// threads; the calling one is among them, and where no more can be had they are fewer. After an
// error no more is begun, and the first one is returned; having no memory (std::bad_alloc) is one.
Status share_work(uint64_t count, uint64_t step, size_t threads, const Share& share);

}  // namespace forebay::store
