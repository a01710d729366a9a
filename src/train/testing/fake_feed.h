// A feed of random images for tests and benchmarks. The images depend only on epoch and step.
#pragma once

#include "base/random.h"
#include "feed/feed.h"

namespace forebay::train {

class FakeFeed final : public feed::Feed {
 public:
  struct Options {
    uint64_t steps = 4;
    uint32_t batch = 8;
    uint32_t size = 8;
    int32_t classes = 3;
    uint64_t masked = 0;  // how many of the last batch's samples are not valid
  };
  explicit FakeFeed(const Options& options) : options_(options) {}

  uint64_t steps() const override { return options_.steps; }
  using feed::Feed::start;
  base::Status start(const feed::FeedState& state, std::shared_ptr<const feed::SampleList> /*list*/,
                     const std::stop_token& /*stop*/) override {
    state_ = state;
    return {};
  }
  bool wait_ms(int) override { return true; }
  base::Result<std::shared_ptr<const feed::Batch>> next() override {
    const uint64_t step = state_.position / options_.batch;
    if (step >= options_.steps) return std::shared_ptr<const feed::Batch>();
    state_.position += options_.batch;
    return make(step);
  }
  feed::FeedState state() const override { return state_; }
  feed::FeedStats stats() const override { return {}; }
  feed::Trace& trace() override { return trace_; }

  // The step whose images contain NaN, so that its loss is not finite.
  uint64_t bad_step = UINT64_MAX;

 private:
  struct Owned : feed::Batch {
    std::vector<float> values;
  };
  std::shared_ptr<const feed::Batch> make(uint64_t step) const {
    base::Random random(7, base::Purpose::kTest, state_.epoch, step);
    auto batch = std::make_shared<Owned>();
    batch->values.resize(size_t{options_.batch} * options_.size * options_.size * 3);
    for (uint32_t i = 0; i < options_.batch; ++i) {
      batch->labels.push_back(
          static_cast<int32_t>(random.below(static_cast<uint64_t>(options_.classes))));
      batch->samples.push_back(i);
      const bool last = step + 1 == options_.steps;
      batch->valid.push_back(last && i + options_.masked >= options_.batch ? 0 : 1);
    }
    for (float& value : batch->values) value = static_cast<float>(random.uniform()) - 0.5F;
    if (step == bad_step) batch->values[0] = std::numeric_limits<float>::quiet_NaN();
    batch->images = reinterpret_cast<uint8_t*>(batch->values.data());
    batch->images_bytes = batch->values.size() * sizeof(float);
    batch->size = image::square(options_.size);
    batch->epoch = state_.epoch;
    batch->step = step;
    return batch;
  }

  Options options_;
  feed::FeedState state_;
  feed::Trace trace_;
};

}  // namespace forebay::train
