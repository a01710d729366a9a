#include "explore/selector.h"

namespace forebay::explore {

double Selector::rank_of(double score) const {
  if (options_.kind == SelectorKind::kTop) return -score;
  return options_.kind == SelectorKind::kBottom ? score : 0;
}

bool Selector::passes(double score) const {
  switch (options_.kind) {
    case SelectorKind::kAbove:
    case SelectorKind::kFirst:
      return score > options_.low;
    case SelectorKind::kWithin:
      return score >= options_.low && score <= options_.high;
    default:
      return true;
  }
}

std::vector<Listed> Selector::offer(Listed branch, double score) {
  if (!passes(score)) return {branch};
  kept_.insert({.rank = rank_of(score), .branch = branch});
  const bool has_limit = is_ranked() || options_.kind == SelectorKind::kFirst;
  if (!has_limit || kept_.size() <= options_.count) return {};
  const auto worst = std::prev(kept_.end());
  const Listed dropped = worst->branch;
  kept_.erase(worst);
  return {dropped};
}

bool Selector::is_hopeless(Listed branch, ScoreBounds bounds) const {
  if (branch >= enough_from()) return true;
  switch (options_.kind) {
    case SelectorKind::kTop:
    case SelectorKind::kBottom: {
      if (kept_.size() < options_.count) return false;
      const double best = options_.kind == SelectorKind::kTop ? bounds.high : bounds.low;
      return *std::prev(kept_.end()) < Entry{.rank = rank_of(best), .branch = branch};
    }
    case SelectorKind::kAbove:
    case SelectorKind::kFirst:
      return bounds.high <= options_.low;
    case SelectorKind::kWithin:
      return bounds.high < options_.low || bounds.low > options_.high;
    case SelectorKind::kAll:
      break;
  }
  return false;
}

Listed Selector::enough_from() const {
  if (options_.count == 0 && (is_ranked() || options_.kind == SelectorKind::kFirst)) return 0;
  if (options_.kind != SelectorKind::kFirst || kept_.size() < options_.count) return UINT64_MAX;
  return std::prev(kept_.end())->branch + 1;
}

std::vector<Listed> Selector::kept() const {
  std::vector<Listed> out;
  for (const Entry& entry : kept_) out.push_back(entry.branch);
  return out;
}

}  // namespace forebay::explore
