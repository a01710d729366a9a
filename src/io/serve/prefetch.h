// Files whose ranges can be fetched into a cache before they are read: those of a job's cache
// (cache/).
#pragma once

#include <functional>
#include <vector>

#include "io/serve/ranges_wanted.h"

namespace forebay::io {

// The outcome of a request to cache ranges before they are read. Of several outcomes, the last one
// in this order counts.
enum class PrefetchOutcome : uint8_t {
  kKept,    // the cache has them
  kFull,    // there is no room for them, or no member that could keep them
  kComing,  // they are being fetched
  kBusy,    // other fetches go first; ask again later
};

// An open file may implement this, too. Any thread may call anything.
class Prefetchable {
 public:
  virtual ~Prefetchable() = default;
  // Starts to fetch these ranges, which ascend and do not overlap. Calls `done` exactly once, in
  // any thread, possibly before this returns, and without waiting for the bytes.
  virtual void prefetch(const std::vector<serve::WantedRange>& ranges, const ReadOptions& options,
                        std::function<void(PrefetchOutcome)> done) const = 0;
};

}  // namespace forebay::io
