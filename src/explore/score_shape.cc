#include "explore/score_shape.h"

#include <algorithm>

namespace forebay::explore {

namespace {

bool is_negated(Shape shape) { return shape == Shape::kDecreasing || shape == Shape::kValley; }

}  // namespace

bool ScoreLine::add(uint32_t position, double score) {
  const double value = is_negated(shape_) ? -score : score;
  const bool is_right = agrees(position, value);
  scores_[position] = value;
  return is_right;
}

bool ScoreLine::agrees(uint32_t position, double value) const {
  if (shape_ == Shape::kNone) return true;
  const auto after = scores_.upper_bound(position);
  if (shape_ == Shape::kIncreasing || shape_ == Shape::kDecreasing) {
    const bool is_above = after == scores_.begin() || std::prev(after)->second <= value;
    return is_above && (after == scores_.end() || value <= after->second);
  }
  // A peak: no score is lower than scores on both of its sides.
  std::map<uint32_t, double> all = scores_;
  all[position] = value;
  bool has_fallen = false;
  for (auto it = std::next(all.begin()); it != all.end(); ++it) {
    const double before = std::prev(it)->second;
    if (it->second > before && has_fallen) return false;
    has_fallen = has_fallen || it->second < before;
  }
  return true;
}

ScoreBounds ScoreLine::peak_bounds(uint32_t position) const {
  ScoreBounds out;
  const auto after = scores_.upper_bound(position);
  double highest_before = out.low;
  for (auto it = scores_.begin(); it != after; ++it) {
    // Scores fell before here, so they fall further from here on.
    if (it->second < highest_before) out.high = std::min(out.high, it->second);
    highest_before = std::max(highest_before, it->second);
  }
  double highest_after = -std::numeric_limits<double>::infinity();
  for (auto it = scores_.end(); it != after;) {
    --it;
    if (it->second < highest_after) out.high = std::min(out.high, it->second);
    highest_after = std::max(highest_after, it->second);
  }
  out.low = std::min(highest_before, highest_after);
  return out;
}

ScoreBounds ScoreLine::bounds(uint32_t position) const {
  ScoreBounds out;
  if (shape_ == Shape::kIncreasing || shape_ == Shape::kDecreasing) {
    const auto after = scores_.upper_bound(position);
    if (after != scores_.begin()) out.low = std::prev(after)->second;
    if (after != scores_.end()) out.high = after->second;
  } else if (shape_ != Shape::kNone) {
    out = peak_bounds(position);
  }
  if (is_negated(shape_)) return {.low = -out.high, .high = -out.low};
  return out;
}

}  // namespace forebay::explore
