#include "train/learners/averaging/sma.h"

#include <algorithm>
#include <new>

namespace forebay::train {

using base::Code;
using base::fail;

namespace {

constexpr double kShareOfBound = 0.9;
constexpr uint64_t kBlock = 1024;  // numbers that stay in the first-level cache

// Stores α (weight - central) in `correction` and adds it to `sum`.
void correct(std::span<const float> weights, std::span<const float> central, float rate,
             std::span<float> correction, std::span<float> sum) {
  for (size_t i = 0; i < central.size(); ++i) {
    correction[i] = rate * (weights[i] - central[i]);
    sum[i] += correction[i];
  }
}

}  // namespace

double sma_rate_bound(double momentum, uint32_t learners) {
  return 2 * (1 + momentum) / (1 + static_cast<double>(learners) + momentum);
}

double sma_rate(double momentum, uint32_t learners) {
  return std::min(1 / static_cast<double>(learners),
                  kShareOfBound * sma_rate_bound(momentum, learners));
}

Status check_sma(double rate, double momentum, uint32_t learners) {
  if (!(momentum >= 0 && momentum < 1)) {
    return fail(Code::kInvalid, "a momentum of the central model of {}: use 0 to below 1",
                momentum);
  }
  const double bound = sma_rate_bound(momentum, learners);
  if (rate >= 0 && rate < bound) return {};
  return fail(Code::kInvalid,
              "--averaging-rate {}: {} learners are stable with rates above 0 and below {:.4g}; "
              "leave it out for {:.4g}",
              rate, learners, bound, sma_rate(momentum, learners));
}

Sma::Sma(const AveragingOptions& options, std::span<const float> weights)
    : Averaging(options, weights),
      moved_(weights.size()),
      corrections_(weights.size() * options.learners) {}

void Sma::before_update(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  if (!is_due()) return;
  const double given = options().rate;
  const auto rate =
      static_cast<float>(given > 0 ? given : sma_rate(options().momentum, options().learners));
  const auto momentum = static_cast<float>(options().momentum);
  for (uint64_t done = 0; done < range.count; done += kBlock) {
    const Range block = {.begin = range.begin + done,
                         .count = std::min(kBlock, range.count - done)};
    const std::span<float> z = central().subspan(block.begin, block.count);
    const std::span<float> moved = std::span(moved_).subspan(block.begin, block.count);
    std::array<float, kBlock> sum = {};
    for (size_t j = 0; j < learners.size(); ++j) {
      correct(learners[j].weights.subspan(block.begin, block.count), z, rate, corrections(j, block),
              std::span(sum).first(block.count));
    }
    for (size_t i = 0; i < block.count; ++i) {
      moved[i] = sum[i] + momentum * moved[i];
      z[i] += moved[i];
    }
  }
}

void Sma::after_update(std::span<const LearnerNumbers> learners, Range range) {
  check(learners, range);
  if (!is_due()) return;
  if (restarts()) return restart(learners, range);
  for (size_t j = 0; j < learners.size(); ++j) {
    const std::span<float> weights = learners[j].weights.subspan(range.begin, range.count);
    const std::span<const float> correction = corrections(j, range);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= correction[i];
  }
}

void Sma::restart(std::span<const LearnerNumbers> learners, Range range) {
  Averaging::restart(learners, range);
  std::ranges::fill(std::span(moved_).subspan(range.begin, range.count), 0.0F);
}

Status Sma::resize(uint32_t learners) {
  std::vector<float> corrections;
  try {
    corrections.resize(moved_.size() * learners);
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "not enough memory to average {} learners; they are still {}",
                learners, this->learners());
  }
  RETURN_IF_ERROR(Averaging::resize(learners));
  corrections_ = std::move(corrections);
  return {};
}

std::vector<KeptNumbers> Sma::kept() {
  std::vector<KeptNumbers> kept = Averaging::kept();
  kept.push_back({"moved", moved_});
  return kept;
}

}  // namespace forebay::train
