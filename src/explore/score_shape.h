// A property that a user declares for scores along an ordered explore, with all other settings
// equal: from it follow bounds for scores that are not known yet.
#pragma once

#include <cstdint>
#include <map>

#include "explore/selector.h"

namespace forebay::explore {

enum class Shape : uint8_t {
  kNone,
  kIncreasing,  // never falls from one value to the next
  kDecreasing,  // never rises
  kPeak,        // never falls up to some value, and never rises after it (unimodal)
  kValley,      // never rises up to some value, and never falls after it
};

// The scores along one line of an ordered explore. A value, copied freely.
class ScoreLine {
 public:
  explicit ScoreLine(Shape shape) : shape_(shape) {}

  // Takes the score at a position. Returns false if the scores so far contradict the shape.
  bool add(uint32_t position, double score);
  // What the shape says about the score at a position that has none.
  ScoreBounds bounds(uint32_t position) const;

 private:
  bool agrees(uint32_t position, double score) const;
  ScoreBounds peak_bounds(uint32_t position) const;

  Shape shape_;
  std::map<uint32_t, double> scores_;  // negated for kDecreasing and kValley
};

}  // namespace forebay::explore
