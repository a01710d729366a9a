// Which branches a heuristic choose ends before their trainings are complete, by the scores that
// they report on their way. The rules are those of Optuna's SuccessiveHalvingPruner and
// MedianPruner. A branch that is ended might have become the best.
#pragma once

#include <map>
#include <set>

#include "explore/selector.h"

namespace forebay::explore {

enum class EarlyStopKind : uint8_t {
  kNone,
  // Asynchronous successive halving (ASHA): at the reports grace, grace x factor, grace x factor^2
  // and so on, a branch goes on if it is among the best 1/factor of those that have come so far.
  kAsha,
  // From report `grace` on, a branch goes on if its best score so far is not worse than the median
  // of the complete branches at the same report, once `startup` branches are complete.
  kMedian,
};

struct EarlyStopOptions {
  EarlyStopKind kind = EarlyStopKind::kNone;
  uint32_t grace = 1;    // at least 1
  uint32_t factor = 4;   // at least 2
  uint32_t startup = 5;  // at least 1
  bool lowest_is_best = false;
};

// A value, copied freely.
class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopOptions options) : options_(options) {}

  // Takes the score that a branch reports; `step` counts its reports from 1. Returns whether the
  // branch should end.
  bool add(Listed branch, uint32_t step, double score);
  // The branch has come to its end.
  void complete(Listed branch);

 private:
  bool is_rung(uint32_t step) const;
  bool falls_at_rung(uint32_t step, double rank) const;
  bool is_below_median(Listed branch, uint32_t step) const;

  EarlyStopOptions options_;
  // By step and branch; the lower, the better.
  std::map<uint32_t, std::map<Listed, double>> ranks_;
  std::map<Listed, double> best_;  // the least rank of each branch so far
  std::set<Listed> complete_;
};

}  // namespace forebay::explore
