#include "explore/early_stop.h"

#include <algorithm>

namespace forebay::explore {

bool EarlyStop::add(Listed branch, uint32_t step, double score) {
  if (options_.kind == EarlyStopKind::kNone) return false;
  const double rank = options_.lowest_is_best ? score : -score;
  ranks_[step][branch] = rank;
  const auto [best, is_first] = best_.try_emplace(branch, rank);
  if (!is_first) best->second = std::min(best->second, rank);
  if (options_.kind == EarlyStopKind::kAsha) return is_rung(step) && falls_at_rung(step, rank);
  return step >= options_.grace && is_below_median(branch, step);
}

void EarlyStop::complete(Listed branch) { complete_.insert(branch); }

bool EarlyStop::is_rung(uint32_t step) const {
  uint64_t rung = options_.grace;
  while (rung < step) rung *= options_.factor;
  return rung == step;
}

bool EarlyStop::falls_at_rung(uint32_t step, double rank) const {
  const auto& here = ranks_.at(step);
  const size_t going_on = std::max<size_t>(1, here.size() / options_.factor);
  const auto better =
      std::ranges::count_if(here, [&](const auto& other) { return other.second < rank; });
  return static_cast<size_t>(better) >= going_on;
}

bool EarlyStop::is_below_median(Listed branch, uint32_t step) const {
  std::vector<double> ranks;
  for (const auto& [other, rank] : ranks_.at(step)) {
    if (other != branch && complete_.contains(other)) ranks.push_back(rank);
  }
  if (ranks.size() < options_.startup) return false;
  const size_t half = ranks.size() / 2;
  std::ranges::sort(ranks);
  const double median = ranks.size() % 2 == 1 ? ranks[half] : (ranks[half - 1] + ranks[half]) / 2;
  return best_.at(branch) > median;
}

}  // namespace forebay::explore
