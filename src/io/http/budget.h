// Limits that protect an overloaded service from a client: a budget for extra requests, and how
// many requests may run at once. Plain logic without sockets and clocks.
#pragma once

#include <cstdint>

namespace forebay::io::http {

struct BudgetOptions {
  double most = 1;         // the most tokens to save up; a budget begins with that many
  double per_success = 0;  // tokens that each answered request adds
  double per_second = 0;   // tokens that time adds
};

// Tokens for extra requests (a token bucket). One thread at a time.
class Budget {
 public:
  explicit Budget(const BudgetOptions& options) : options_(options), tokens_(options.most) {}

  void add_success();
  // Takes a token if there is one.
  bool take(int64_t now_ns);
  // Takes a token, in advance if there is none, and returns the nanoseconds until it is available.
  // Needs per_second > 0.
  int64_t take_ahead(int64_t now_ns);

 private:
  void add_time(int64_t now_ns);

  const BudgetOptions options_;
  double tokens_;  // negative if tokens were taken in advance
  int64_t seen_ns_ = 0;
};

// How many requests may run at once: fewer after a server refused one as too many, then slowly more
// again (additive increase, multiplicative decrease). One thread at a time.
class RequestLimit {
 public:
  explicit RequestLimit(uint32_t most) : most_(most), limit_(most) {}

  uint32_t limit() const { return static_cast<uint32_t>(limit_); }
  bool is_reduced() const { return limit() < most_; }
  // A request that was sent at `sent_ns` was refused because there were too many.
  void refused(int64_t sent_ns, int64_t now_ns);
  void answered();

 private:
  const uint32_t most_;
  double limit_;
  int64_t reduced_ns_ = 0;
};

}  // namespace forebay::io::http
