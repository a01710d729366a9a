#include "train/sync/all_reduce.h"

#include <algorithm>

namespace forebay::train {

namespace {

// DistributedDataParallel's sizes: the first bucket is small, so that the link has work early.
constexpr uint64_t kFirstBucketFloats = (1u << 20) / sizeof(float);
constexpr uint64_t kBucketFloats = (25u << 20) / sizeof(float);

}  // namespace

AllReduce::AllReduce(uint32_t processes, const std::vector<uint64_t>& sizes)
    : processes_(processes) {
  uint64_t end = 0;
  for (const uint64_t size : sizes) end += size;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) continue;  // a bucket without numbers would never be summed
    const uint64_t limit = buckets_.size() == 1 ? kFirstBucketFloats : kBucketFloats;
    if (buckets_.empty() || buckets_.back().range.count >= limit) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    end -= sizes[i];
    bucket.range = {.begin = end, .count = bucket.range.count + sizes[i]};
    bucket.missing = bucket.range.count;
  }
}

// Makes the next bucket ready to be summed.
void AllReduce::set_ready() {
  const Range range = buckets_[ready_++].range;
  FOREBAY_CHECK(base::in_bounds(range.begin, range.count, gradient_.size()));
  // Divides before the sum, like DistributedDataParallel.
  const auto processes = static_cast<float>(processes_);
  for (float& value : gradient_.subspan(range.begin, range.count)) value /= processes;
}

void AllReduce::gradient_ready(std::span<float> gradient, Range range) {
  gradient_ = gradient;
  for (Bucket& bucket : buckets_) {
    if (range.begin < bucket.range.begin) continue;
    bucket.missing -= std::min(bucket.missing, range.count);
    break;
  }
  while (ready_ < buckets_.size() && buckets_[ready_].missing == 0) set_ready();
}

void AllReduce::gradient_done(std::span<float> gradient) {
  gradient_ = gradient;
  is_in_step_ = true;
  while (ready_ < buckets_.size()) set_ready();
}

bool AllReduce::must_wait() const { return is_in_step_ && done_ < buckets_.size(); }

Status AllReduce::before_update(std::span<float> /*gradient*/) {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.range.count;
  ready_ = given_ = done_ = 0;
  is_in_step_ = false;
  return {};
}

std::span<float> AllReduce::next_reduction() {
  if (given_ == ready_) return {};
  const Range range = buckets_[given_++].range;
  return gradient_.subspan(range.begin, range.count);
}

}  // namespace forebay::train
