// Figures of a range of a run's steps.
#pragma once

#include <nlohmann/json.hpp>

#include "io/machine.h"
#include "train/learner/learner.h"

namespace forebay::train {

inline double seconds_since(int64_t start_ns) {
  return static_cast<double>(io::monotonic_ns() - start_ns) / 1e9;
}

inline double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Sums over steps, for progress lines and the log.
struct Interval {
  int64_t start_ns = io::monotonic_ns();
  int64_t wait_ns = 0;
  uint64_t steps = 0;
  uint64_t samples = 0;
  uint64_t correct = 0;
  double loss = 0;

  void add(const BatchResult& step, int64_t waited_ns) {
    ++steps;
    wait_ns += waited_ns;
    samples += step.samples;
    correct += step.correct;
    loss += step.loss;
  }
  nlohmann::json fields() const {
    const double seconds = seconds_since(start_ns);
    const auto count = static_cast<double>(samples);
    return {{"samples_per_s", ratio(count, seconds)},
            {"wait_share", ratio(static_cast<double>(wait_ns) / 1e9, seconds)},
            {"loss", ratio(loss, static_cast<double>(steps))},
            {"accuracy", ratio(static_cast<double>(correct), count)}};
  }
};

}  // namespace forebay::train
