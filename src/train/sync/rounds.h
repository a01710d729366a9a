// A position that goes over a range of numbers again and again, slice by slice.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "train/sync/strategy.h"

namespace forebay::train {

// Knows which numbers are due next, and in which step they were passed before.
class Rounds {
 public:
  // `first` is the position in the range at which the first slice begins.
  explicit Rounds(Range range, uint64_t first = 0) : range_(range), at_(first % range.count) {}

  // Makes `count` more numbers due, up to `most` or the whole range in total. Numbers that are due
  // already stay due.
  void add_due(uint64_t count, uint64_t most = std::numeric_limits<uint64_t>::max()) {
    due_ = std::max(due_, std::min({due_ + count, most, range_.count}));
  }
  uint64_t due() const { return due_; }
  // The ranges that are due, in the order in which take() takes them; either may be empty.
  std::array<Range, 2> due_ranges() const {
    const uint64_t first = std::min(due_, range_.count - at_);
    return {Range{.begin = range_.begin + at_, .count = first},
            Range{.begin = range_.begin, .count = due_ - first}};
  }

  // Takes the next slice, of at most `count_max` numbers that are due, in the step `step`.
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

  // The step in which the next slice's first number was taken before; 0 if it was not.
  uint64_t last_step() const { return passed_ < range_.count ? 0 : marks_.front().step; }

 private:
  struct Mark {
    uint64_t passed = 0;
    uint64_t step = 0;
  };
  Range range_;
  uint64_t at_;  // within the range
  uint64_t due_ = 0;
  uint64_t passed_ = 0;     // how many numbers were taken since the beginning
  std::deque<Mark> marks_;  // the slices of the last round, oldest first
};

}  // namespace forebay::train
