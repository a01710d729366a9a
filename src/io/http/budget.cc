#include "io/http/budget.h"

#include <algorithm>
#include <cmath>

namespace forebay::io::http {

namespace {

constexpr double kSecondNs = 1e9;
constexpr double kLeastPlaces = 2;

}  // namespace

void Budget::add_success() { tokens_ = std::min(tokens_ + options_.per_success, options_.most); }

void Budget::add_time(int64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - seen_ns_) / kSecondNs;
  tokens_ = std::min(tokens_ + seconds * options_.per_second, options_.most);
  seen_ns_ = now_ns;
}

bool Budget::take(int64_t now_ns) {
  add_time(now_ns);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

int64_t Budget::take_ahead(int64_t now_ns) {
  add_time(now_ns);
  tokens_ -= 1;
  return tokens_ >= 0 ? 0 : std::llround(-tokens_ / options_.per_second * kSecondNs);
}

// A refusal of a request that was sent before the last reduction tells nothing new.
void RequestLimit::refused(int64_t sent_ns, int64_t now_ns) {
  if (sent_ns < reduced_ns_) return;
  reduced_ns_ = now_ns;
  limit_ = std::max(std::min<double>(kLeastPlaces, most_), limit_ / 2);
}

// Raises the limit by one for each round of answers.
void RequestLimit::answered() { limit_ = std::min<double>(most_, limit_ + 1 / limit_); }

}  // namespace forebay::io::http
