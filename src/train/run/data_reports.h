// What progress lines and the log say about where the training batches came from.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "feed/feed.h"
#include "prep/host/prep_options.h"

namespace forebay::train {

// How many steps the host and its prep servers have prepared so far.
class PrepReport {
 public:
  explicit PrepReport(const std::function<prep::PrepStats()>& prep) {
    if (prep) stats_ = prep();
  }
  // A text to append to a line; empty if no prep servers help.
  std::string text() const;
  void add_to(nlohmann::json* fields) const;
  // Returns how many bytes were moved to and from memory for the feed's samples, in a simple model:
  // bytes that were read or received from prep servers are copied once, each tensor of
  // `sample_bytes` is written once, and everything else stays in the processor's caches.
  uint64_t memory_bytes(const feed::FeedStats& feed, uint64_t sample_bytes) const;

 private:
  std::optional<prep::PrepStats> stats_;
};

// How much came over a network so far, and what it cost.
class LinkReport {
 public:
  LinkReport(const feed::FeedStats& stats, const feed::Price& price)
      : stats_(stats), cost_(feed::cost(stats, price)) {}
  // A text to append to a line; empty if nothing came over a network.
  std::string text() const;
  void add_to(nlohmann::json* fields) const;

 private:
  const feed::FeedStats stats_;
  const double cost_;
};

}  // namespace forebay::train
