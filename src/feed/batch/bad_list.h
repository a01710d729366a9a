// The bad samples of an epoch, each counted once, and their limit.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "feed/batch/state.h"

namespace forebay::feed {

class BadList {
 public:
  explicit BadList(uint64_t most) : most_(most) {}
  // Replaces the list by `bad`.
  void begin(std::vector<BadSample> bad);
  // Errors: kCorrupt, naming the last bad samples, if the limit is exceeded; then nothing is added.
  Status add(std::vector<BadSample> bad);
  const std::vector<BadSample>& all() const { return all_; }

 private:
  const uint64_t most_;
  std::vector<BadSample> all_;
  std::set<std::string> names_;
};

}  // namespace forebay::feed
