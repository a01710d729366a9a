#include "train/sync/partitions.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "base/status.h"

namespace forebay::train {

namespace {

constexpr double kTolerance = 1.2;

}  // namespace

Partitions::Partitions(uint64_t floats) : floats_(floats) { FOREBAY_CHECK(floats > 0); }

void Partitions::follow(double floats_per_step) {
  FOREBAY_CHECK(floats_per_step > 0);
  const double exact = static_cast<double>(floats_) / floats_per_step;
  const double limit = std::min<double>(base::kPartitionsMax, static_cast<double>(floats_));
  const double wanted = std::clamp(std::ceil(exact), 1.0, limit);
  const auto now = static_cast<double>(count_);
  // A link that carries the whole model in less than a step gets all of it in each step.
  const bool is_off = exact > now * kTolerance || exact < now / kTolerance;
  if (is_off || wanted == 1) count_ = static_cast<uint32_t>(wanted);
}

}  // namespace forebay::train
