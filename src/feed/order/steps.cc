#include "feed/order/steps.h"

#include <algorithm>

namespace forebay::feed {

uint64_t Steps::count() const {
  if (!step_ends.empty()) return step_ends.size();
  return (end + global_batch - 1) / global_batch;
}

uint64_t Steps::begin_of(uint64_t step) const {
  if (step_ends.empty()) return step * global_batch;
  return step == 0 ? 0 : step_ends[step - 1];
}

uint64_t Steps::end_of(uint64_t step) const {
  return step_ends.empty() ? std::min((step + 1) * global_batch, end) : step_ends[step];
}

std::optional<uint64_t> Steps::step_at(uint64_t position) const {
  if (position >= end) return position == end ? std::optional(count()) : std::nullopt;
  uint64_t step = position / global_batch;
  if (!step_ends.empty()) {
    const auto after = std::ranges::upper_bound(step_ends, position);
    step = static_cast<uint64_t>(after - step_ends.begin());
  }
  return begin_of(step) == position ? std::optional(step) : std::nullopt;
}

}  // namespace forebay::feed
