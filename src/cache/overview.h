// The figures of all machines of a cache, for the page that shows them. The other machines are
// asked only while somebody views the page.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cache/cache.h"

namespace forebay::cache {

// Any thread may call anything; no call waits.
class Overview {
 public:
  // The cache must outlive this.
  explicit Overview(Cache& cache);
  ~Overview();
  Overview(const Overview&) = delete;
  Overview& operator=(const Overview&) = delete;

  // A JSON object. "machines": the figures of this machine, then those of the others, as far as
  // they are known, with "asked_ms", their age in milliseconds, and "why", which says why the
  // machine did not answer the last question. "not_shown": the number of further machines. Asks the
  // other machines for new figures, unless they were asked just before.
  std::string json();

 private:
  struct Other {
    std::optional<Figures> figures = {};
    int64_t heard_ns = 0;
    std::string why = {};
    bool is_asked = false;
  };
  // Outlives the Overview while answers are awaited.
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
