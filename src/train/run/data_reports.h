// What progress lines and the log say of where the training batches came from.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "feed/feed.h"
#include "prep/host/prep_options.h"

namespace forebay::train {

// Who prepared the steps so far.
class PrepReport {
 public:
  explicit PrepReport(const std::function<prep::PrepStats()>& prep) {
    if (prep) stats_ = prep();
  }
  // To be appended to a line; empty where no prep servers help.
  std::string text() const;
  void add_to(nlohmann::json* fields) const;
  // How many bytes went to memory and from it for the feed's samples, in a model: what was read,
  // and what prep servers made, is copied once; each tensor of `sample_bytes` is written once; all
  // else stays in the processor's caches.
  uint64_t memory_bytes(const feed::FeedStats& feed, uint64_t sample_bytes) const;

 private:
  std::optional<prep::PrepStats> stats_;
};

// What came over a network so far, and what it cost.
class LinkReport {
 public:
  LinkReport(const feed::FeedStats& stats, const feed::Price& price)
      : stats_(stats), cost_(feed::cost(stats, price)) {}
  // To be appended to a line; empty where nothing came over a network.
  std::string text() const;
  void add_to(nlohmann::json* fields) const;

 private:
  const feed::FeedStats stats_;
  const double cost_;
};

}  // namespace forebay::train
