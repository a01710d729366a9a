// What all machines of a cache hold and do, for the page that shows them. The others are asked
// while somebody looks, and at no other time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cache/cache.h"

namespace forebay::cache {

// Any thread may call anything; nothing waits.
class Overview {
 public:
  // The cache outlives this.
  explicit Overview(Cache& cache);
  ~Overview();
  Overview(const Overview&) = delete;
  Overview& operator=(const Overview&) = delete;

  // A JSON object: "machines" has the figures of this machine, and then those of the others, as far
  // as they are known, with "asked_ms": how long ago they were true, and "why": why a machine did
  // not answer when it was asked last; "not_shown": further machines. Asks the others, unless that
  // was done just before.
  std::string json();

 private:
  struct Other {
    std::optional<Figures> figures = {};
    int64_t heard_ns = 0;
    std::string why = {};
    bool is_asked = false;
  };
  // Outlives this while answers are awaited.
  struct Others {
    base::Mutex mutex;
    std::map<std::string, Other> by_id GUARDED_BY(mutex);
    int64_t asked_ns GUARDED_BY(mutex) = 0;
  };
  void ask(const std::vector<Member>& members);

  Cache& cache_;
  const std::shared_ptr<Others> others_;
};

}  // namespace forebay::cache
