// What is left of an exchange after its last step: its weights, what a checkpoint keeps, its
// figures.
#include <algorithm>

#include "train/sync/exchange.h"

namespace forebay::train {

using base::Code;
using base::MutexLock;

namespace {

constexpr double kNsPerSecond = 1e9;

// Replaces the strategy of an exchange that has ended.
class Ended final : public Strategy {
 public:
  Status before_update(std::span<float> /*gradient*/) override {
    return base::fail(Code::kInvalid, "sync: this exchange has ended");
  }
  Status lost(uint32_t /*peer*/) override { return {}; }
};

}  // namespace

void Exchange::settle() {
  const MutexLock lock(mutex_);
  strategy_->settle(weights_);
}

void Exchange::release() {
  const MutexLock lock(mutex_);
  strategy_ = std::make_unique<Ended>();
}

std::vector<std::pair<std::string, std::vector<float>>> Exchange::kept() const {
  const MutexLock lock(mutex_);
  std::vector<std::pair<std::string, std::vector<float>>> out;
  for (const Kept& kept : strategy_->kept()) {
    out.emplace_back(kept.name, std::vector<float>(kept.floats.begin(), kept.floats.end()));
  }
  return out;
}

Status Exchange::restore(const std::string& name, std::span<const float> floats) {
  const MutexLock lock(mutex_);
  for (const Kept& kept : strategy_->kept()) {
    if (kept.name != name || kept.floats.size() != floats.size()) continue;
    const auto own = floats.subspan(kept.own.begin, kept.own.count);
    std::copy(own.begin(), own.end(), kept.floats.subspan(kept.own.begin).begin());
    return {};
  }
  return base::fail(Code::kInvalid, "sync: this strategy keeps no {} numbers named {}",
                    floats.size(), name);
}

std::vector<float> Exchange::shared_weights() const {
  const MutexLock lock(mutex_);
  const std::span<const float> shared = strategy_->shared_weights();
  return {shared.begin(), shared.end()};
}

std::vector<float> Exchange::averaged_weights() const {
  const MutexLock lock(mutex_);
  return strategy_->averaged(weights_);
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
