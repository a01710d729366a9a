#include "train/sync/partitions.h"

#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "base/status.h"

namespace forebay::train {

namespace {

constexpr double kTolerance = 1.2;

}  // namespace

Partitions::Partitions(uint64_t floats, uint32_t least)
    : floats_(floats),
      least_(static_cast<uint32_t>(std::min<uint64_t>(floats, least))),
      count_(least_) {
  FOREBAY_CHECK(least_ > 0 && least_ <= base::kPartitionsMax);
}

void Partitions::follow(double floats_per_step) {
  FOREBAY_CHECK(floats_per_step > 0);
  const double exact = static_cast<double>(floats_) / floats_per_step;
  const double limit = std::min<double>(base::kPartitionsMax, static_cast<double>(floats_));
  const double wanted = std::clamp<double>(std::ceil(exact), least_, limit);
  const auto now = static_cast<double>(count_);
  // If the link carries the largest possible partition in each step, p becomes least_ even if that
  // is a small change.
  const bool is_off = exact > now * kTolerance || exact < now / kTolerance;
  if (is_off || wanted == least_) count_ = static_cast<uint32_t>(wanted);
}

}  // namespace forebay::train
