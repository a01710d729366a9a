#include "train/sync/local_steps.h"

#include <algorithm>

#include "train/sync/floats.h"

namespace forebay::train {

LocalSteps::LocalSteps(const Options& options, std::span<const float> weights)
    : options_(options),
      shared_(weights.begin(), weights.end()),
      momentum_(options.outer ? 0 : weights.size()),
      started_(weights.size()),
      moved_(weights.size()),
      left_out_(options.encoding == Encoding::kInt8 ? weights.size() : 0) {
  FOREBAY_CHECK(options.floats == weights.size() && options.fragments > 0 &&
                options.fragments <= options.steps &&
                options.delay < options.steps / options.fragments &&
                options.encoding != Encoding::kTop);
}

Range LocalSteps::fragment() const {
  const uint64_t number = exchanges_ % options_.fragments;
  const uint64_t begin = options_.floats * number / options_.fragments;
  return {.begin = begin, .count = options_.floats * (number + 1) / options_.fragments - begin};
}

Status LocalSteps::before_update(std::span<float> gradient) {
  return all_finite(gradient) ? Status() : not_finite(step_);
}

void LocalSteps::after_update(std::span<float> weights) {
  if (is_due()) apply(weights);
  const bool starts = state_ == State::kIdle && starts_next();
  ++step_;
  if (starts) start(weights);
}

void LocalSteps::start(std::span<const float> weights) {
  const Range range = fragment();
  if (range.count == 0) {  // there are more fragments than numbers
    ++exchanges_;
    return;
  }
  const auto processes = static_cast<float>(options_.processes);
  for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
    started_[i] = weights[i];
    moved_[i] = ((takes_mean() ? 0 : shared_[i]) - weights[i]) / processes;
  }
  if (!left_out().empty()) {
    for (uint64_t i = range.begin; i < range.begin + range.count; ++i) moved_[i] += left_out_[i];
  }
  started_step_ = step_;
  is_summed_ = false;
  state_ = State::kReady;
}

std::span<float> LocalSteps::next_reduction() {
  if (state_ != State::kReady) return {};
  state_ = State::kInSum;
  const Range range = fragment();
  return std::span<float>(moved_).subspan(range.begin, range.count);
}

std::span<float> LocalSteps::left_out() {
  if (left_out_.empty() || takes_mean()) return {};
  const Range range = fragment();
  return std::span<float>(left_out_).subspan(range.begin, range.count);
}

void LocalSteps::step_outer(Range range) {
  if (options_.outer && !takes_mean()) {
    options_.outer(std::span(shared_).subspan(range.begin, range.count),
                   std::span(moved_).subspan(range.begin, range.count), range.begin);
    return;
  }
  const auto rate = static_cast<float>(options_.outer_rate);
  const auto momentum = static_cast<float>(options_.outer_momentum);
  for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
    if (takes_mean()) {
      shared_[i] = -moved_[i];
    } else {
      momentum_[i] = momentum * momentum_[i] + moved_[i];
      shared_[i] -= rate * (moved_[i] + momentum * momentum_[i]);
    }
  }
}

void LocalSteps::apply(std::span<float> weights) {
  const Range range = fragment();
  step_outer(range);
  for (uint64_t i = range.begin; i < range.begin + range.count; ++i) {
    // Keeps what this process has learned since the start of the fragment's exchange.
    weights[i] = shared_[i] + (weights[i] - started_[i]);
  }
  ++exchanges_;
  state_ = State::kIdle;
}

}  // namespace forebay::train
