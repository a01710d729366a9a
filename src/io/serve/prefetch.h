// Files of which somebody keeps copies, and can fetch what is read later before it is read: those
// of a job's cache (cache/).
#pragma once

#include <functional>
#include <vector>

#include "io/serve/ranges_wanted.h"

namespace forebay::io {

// What becomes of the wish that copies of bytes are kept before the bytes are read. Of several
// wishes, the last answer in this order counts.
enum class PrefetchOutcome : uint8_t {
  kKept,    // they are
  kFull,    // there is no room for them, or nobody who could keep them
  kComing,  // they are on their way
  kBusy,    // what is needed now or on its way goes first; ask again later
};

// An open file may be one of these, too. Any thread may call anything.
class Prefetchable {
 public:
  virtual ~Prefetchable() = default;
  // Begins to fetch these ranges, which ascend and do not overlap. Calls `done` exactly once, in
  // any thread, possibly before this returns, and before the bytes have come.
  virtual void prefetch(const std::vector<serve::WantedRange>& ranges, const ReadOptions& options,
                        std::function<void(PrefetchOutcome)> done) const = 0;
};

}  // namespace forebay::io
