// The samples of an epoch that could not be used, each counted once, and how many there may be.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "feed/batch/state.h"

namespace forebay::feed {

class BadList {
 public:
  explicit BadList(uint64_t most) : most_(most) {}
  // Forgets what was added, and begins with these.
  void begin(std::vector<BadSample> bad);
  // Errors: kCorrupt, naming the last ones, when there are more than may be; then nothing is added.
  Status add(std::vector<BadSample> bad);
  const std::vector<BadSample>& all() const { return all_; }

 private:
  const uint64_t most_;
  std::vector<BadSample> all_;
  std::set<std::string> names_;
};

}  // namespace forebay::feed
