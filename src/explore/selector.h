// Which branches a choose keeps, decided from one score after the other. Branches are numbered by
// their listed order, in which ties are decided: the earlier branch wins.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace forebay::explore {

using Listed = uint64_t;  // a branch's place in listed order; there may be gaps

enum class SelectorKind : uint8_t {
  kTop,     // the `count` highest scores
  kBottom,  // the `count` lowest scores
  kAbove,   // all scores greater than `low`
  kFirst,   // the first `count` branches, in listed order, whose scores are greater than `low`
  kWithin,  // all scores from `low` to `high`
  kAll,     // all; somebody else selects among them
};

struct SelectorOptions {
  SelectorKind kind = SelectorKind::kTop;
  uint32_t count = 1;
  double low = 0;
  double high = 0;
};

// The range in which a score must lie, both ends included.
struct ScoreBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

// A value, copied freely. Branches that fail or are skipped never come here.
class Selector {
 public:
  explicit Selector(SelectorOptions options) : options_(options) {}

  // Takes the score of a branch, not NaN, once for each branch. Returns the branches, maybe this
  // one, that cannot be kept any more: they had been kept so far.
  std::vector<Listed> offer(Listed branch, double score);
  // Whether the branch, which has no score yet, cannot be kept whatever happens, if its score is
  // within the bounds.
  bool is_hopeless(Listed branch, ScoreBounds bounds) const;
  // The first branch in listed order from which on no further branch can be kept, whatever its
  // score; UINT64_MAX if there is none.
  Listed enough_from() const;

  // The branches that are kept so far: kTop and kBottom by rank, the others in listed order.
  std::vector<Listed> kept() const;

 private:
  struct Entry {
    double rank = 0;  // the lower, the better
    Listed branch = 0;
    auto operator<=>(const Entry&) const = default;
  };
  bool is_ranked() const {
    return options_.kind == SelectorKind::kTop || options_.kind == SelectorKind::kBottom;
  }
  double rank_of(double score) const;
  bool passes(double score) const;

  SelectorOptions options_;
  std::set<Entry> kept_;
};

}  // namespace forebay::explore
