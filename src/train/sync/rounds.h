// A position that goes round and round over a range of numbers, slice by slice.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "train/sync/strategy.h"

namespace forebay::train {

// Knows what is due, and how old it is, of numbers of which each shall be passed again and again.
class Rounds {
 public:
  // `first` says where in the range the first slice begins.
  explicit Rounds(Range range, uint64_t first = 0) : range_(range), at_(first % range.count) {}

  // Makes `count` more numbers due, but no more than `most` in all, nor more than there are; what
  // is due already stays so.
  void add_due(uint64_t count, uint64_t most = std::numeric_limits<uint64_t>::max()) {
    due_ = std::max(due_, std::min({due_ + count, most, range_.count}));
  }
  uint64_t due() const { return due_; }
  // What is due, in the order in which it will be taken; either may be empty.
  std::array<Range, 2> due_ranges() const {
    const uint64_t first = std::min(due_, range_.count - at_);
    return {Range{.begin = range_.begin + at_, .count = first},
            Range{.begin = range_.begin, .count = due_ - first}};
  }

  // Takes the next slice of at most `count_max` numbers, when some are due, in the step `step`.
  Range take(uint64_t count_max, uint64_t step) {
    const Range slice = {.begin = range_.begin + at_,
                         .count = std::min({due_, count_max, range_.count - at_})};
    due_ -= slice.count;
    at_ = (at_ + slice.count) % range_.count;
    passed_ += slice.count;
    marks_.push_back({.passed = passed_, .step = step});
    while (marks_.front().passed + range_.count <= passed_) marks_.pop_front();
    return slice;
  }

  // The step in which the next slice's first number was passed before; 0 for never.
  uint64_t last_step() const { return passed_ < range_.count ? 0 : marks_.front().step; }

 private:
  struct Mark {
    uint64_t passed = 0;
    uint64_t step = 0;
  };
  Range range_;
  uint64_t at_;  // within the range
  uint64_t due_ = 0;
  uint64_t passed_ = 0;     // numbers, since the beginning
  std::deque<Mark> marks_;  // the slices of the last round, oldest first
};

}  // namespace forebay::train
