// What an exchange measures: the rates of its steps and links.
#include <algorithm>

#include "train/sync/exchange.h"

namespace forebay::train {

using base::MutexLock;

namespace {

constexpr int64_t kMeasureNs = 500'000'000;
constexpr int64_t kBusyNsMin = 50'000'000;  // the least busy time of a link for a measurement
constexpr double kBusyShare = 0.9;  // a link that is busy for a smaller share can carry more
constexpr double kMoreWhenIdle = 1.25;
constexpr double kNsPerSecond = 1e9;

double smoothed(double before, double now) { return before == 0 ? now : (before + now) / 2; }

}  // namespace

void Exchange::measure() {
  const int64_t now_ns = clock_.now_ns();
  const int64_t ns = now_ns - measured_ns_;
  const bool begins = begins_to_measure_;
  if (!begins && ns < kMeasureNs) return;
  if (!begins) {
    const int64_t trained_ns = std::max<int64_t>(1, ns - waited_ns_);
    const double steps_per_s = static_cast<double>(stats_.steps - measured_steps_) * kNsPerSecond /
                               static_cast<double>(trained_ns);
    stats_.steps_per_s = smoothed(stats_.steps_per_s, steps_per_s);
  }
  stats_.waited_s += static_cast<double>(waited_ns_) / kNsPerSecond;
  measured_ns_ = now_ns;
  measured_steps_ = stats_.steps;
  waited_ns_ = 0;
  begins_to_measure_ = false;
  for (uint32_t peer = 0; peer < links_.size(); ++peer) {
    if (!begins) {
      measure(peer, ns);
      continue;
    }
    Link& link = links_[peer];
    link.busy_since_ns = now_ns;
    link.busy_ns = 0;
    link.busy_bytes = 0;
  }
}

void Exchange::restart_measuring() {
  const MutexLock lock(mutex_);
  begins_to_measure_ = true;
}

// Measures one link, `ns` after the last measurement.
void Exchange::measure(uint32_t peer, int64_t ns) {
  Link& link = links_[peer];
  if (!link.on_its_way.empty()) count_busy(link);
  if (link.busy_bytes == 0 || link.busy_ns < kBusyNsMin) return;
  const auto busy_ns = static_cast<double>(link.busy_ns);
  const double rate = static_cast<double>(link.busy_bytes) * kNsPerSecond / busy_ns;
  const bool is_often_idle = busy_ns < kBusyShare * static_cast<double>(ns);
  link.busy_ns = 0;
  link.busy_bytes = 0;
  link.stats.bytes_per_s = smoothed(link.stats.bytes_per_s, rate);
  double floats_per_step = link.stats.bytes_per_s / sizeof(float) / stats_.steps_per_s;
  // A link may carry several messages at once faster than single ones.
  if (is_often_idle) floats_per_step *= kMoreWhenIdle;
  strategy_->measured(peer, floats_per_step);
  link.stats.partitions = strategy_->partitions(peer);
  link.stats.encoding = strategy_->encoding(peer);
}

void Exchange::count_busy(Link& link) {
  const int64_t now_ns = clock_.now_ns();
  link.busy_ns += now_ns - link.busy_since_ns;
  link.busy_since_ns = now_ns;
}

ExchangeStats Exchange::stats() const {
  const MutexLock lock(mutex_);
  ExchangeStats stats = stats_;
  int64_t waited_ns = waited_ns_;
  if (waiting_since_ns_) waited_ns += clock_.now_ns() - *waiting_since_ns_;
  stats.waited_s += static_cast<double>(waited_ns) / kNsPerSecond;
  for (const Link& link : links_) stats.links.push_back(link.stats);
  return stats;
}

}  // namespace forebay::train
