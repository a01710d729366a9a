#include "io/http/link.h"

#include <algorithm>

namespace forebay::io::http {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr double kSecondNs = 1e9;

// A 95th percentile needs this many answers.
constexpr uint64_t kAnswersToJudge = 16;
constexpr uint64_t kAnswersBetween = 8;  // how often the quantiles are computed
// A request is slow if it takes longer than twice the 95th percentile. On fast links that
// difference is noise, so each request has at least this time.
constexpr int64_t kLeastSlowNs = 100 * kMs;

// Bodies share a link. A body is slow if it gets less than this fraction of a fair share.
constexpr double kLeastShare = 0.1;
// The throughput is computed after each kBusyBetweenNs of busy time. Of a pause, at most kPauseNs
// counts as busy: in a longer one, all senders were waiting.
constexpr int64_t kBusyBetweenNs = 100 * kMs;
constexpr int64_t kPauseNs = 100 * kMs;
constexpr double kNewWeight = 0.3;

}  // namespace

void Link::add_first_byte(int64_t ns) {
  first_bytes_[answers_++ % kKept] = ns;
  if (answers_ < kAnswersToJudge || answers_ % kAnswersBetween == 0) measure();
}

void Link::measure() {
  std::array<int64_t, kKept> sorted = first_bytes_;
  const auto count = static_cast<int64_t>(std::min<uint64_t>(answers_, kKept));
  const auto end = sorted.begin() + count;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, end);
  latency_s_ = static_cast<double>(sorted[static_cast<size_t>(count / 2)]) / kSecondNs;
  if (answers_ < kAnswersToJudge) return;
  const int64_t late = count * 95 / 100;
  std::nth_element(sorted.begin(), sorted.begin() + late, end);
  slow_ns_ = std::max(kLeastSlowNs, 2 * sorted[static_cast<size_t>(late)]);
}

// The bytes that begin a busy time are not counted, because the time that they took is not known.
void Link::add_bytes(size_t bytes, int64_t now_ns, bool first) {
  const bool begins = receiving_ == 0;
  if (first) ++receiving_;
  if (!begins) {
    busy_ns_ += std::min(now_ns - last_bytes_ns_, kPauseNs);
    bytes_ += bytes;
    if (busy_ns_ >= kBusyBetweenNs) settle();
  }
  last_bytes_ns_ = now_ns;
}

void Link::settle() {
  const double now = static_cast<double>(bytes_) / (static_cast<double>(busy_ns_) / kSecondNs);
  const double before = bytes_per_s_;
  bytes_per_s_ = before == 0 ? now : before + kNewWeight * (now - before);
  busy_ns_ = 0;
  bytes_ = 0;
}

uint64_t Link::bytes_expected(int64_t elapsed_ns) const {
  const double share = bytes_per_s_ / std::max(1u, receiving_);
  return std::max<uint64_t>(
      1, static_cast<uint64_t>(share * kLeastShare * static_cast<double>(elapsed_ns) / kSecondNs));
}

}  // namespace forebay::io::http
