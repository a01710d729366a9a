#include "prep/host/remade_steps.h"

#include <algorithm>

#include "io/machine.h"
#include "prep/wire/batch_bytes.h"

namespace forebay::prep {

using base::Code;
using base::MutexLock;

namespace {

constexpr int64_t kLookNs = 50'000'000;  // how often to check whether there is memory again

feed::FeedOptions out_of_turn(feed::FeedOptions options) {
  options.prefetch = 1;
  options.memory_bytes_max /= 4;
  return options;
}

}  // namespace

bool are_equal(const feed::Prepared& one, const feed::Prepared& other) {
  const BatchBytes a = encode_batch(*one.batch, one.bad, "");
  const BatchBytes b = encode_batch(*other.batch, other.bad, "");
  return a.head == b.head && std::ranges::equal(a.rest, b.rest, [](Bytes x, Bytes y) {
           return std::ranges::equal(x, y);
         });
}

RemadeSteps::RemadeSteps(std::shared_ptr<const store::Dataset> dataset,
                         const feed::FeedOptions& options, const io::Clock& clock,
                         std::function<void(Remade)> take)
    : dataset_(std::move(dataset)),
      options_(out_of_turn(options)),
      clock_(clock),
      take_(std::move(take)) {
  worker_.reserve(1);  // so that ask_maker() cannot fail to start its thread
  asker_.start(1, [this](uint32_t) { ask(); });
}

RemadeSteps::~RemadeSteps() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
    wanted_.notify_all();
  }
  asker_.wait();
  if (maker_ != nullptr) maker_->stop();
  worker_.wait();
}

uint64_t RemadeSteps::begin(uint64_t steps_each, std::shared_ptr<const feed::SampleList> samples) {
  MutexLock lock(mutex_);
  steps_each_ = steps_each;
  samples_ = std::move(samples);
  reasons_.clear();
  to_ask_.clear();
  return ++begun_;
}

void RemadeSteps::want(StepNumber step, Reason reason) {
  MutexLock lock(mutex_);
  const bool is_rescue = reason.is_rescue;
  const auto [at, is_new] = reasons_.try_emplace(step, std::move(reason));
  at->second.is_rescue |= is_rescue;
  if (!is_new) return;
  to_ask_.push_back(step);
  wanted_.notify_all();
}

void RemadeSteps::ask() {
  io::work_in_background();
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!ended_ && to_ask_.empty()) wanted_.wait(mutex_);
      if (ended_) return;
    }
    ask_maker();
  }
}

void RemadeSteps::ask_maker() {
  if (maker_ == nullptr) {
    auto maker = feed::StepMaker::open(dataset_, options_);
    FOREBAY_CHECK(maker);  // the host's feed was opened with these options
    maker_ = std::move(*maker);
    worker_.start(1, [this](uint32_t) { work(); });
  }
  MutexLock lock(mutex_);
  if (maker_samples_ != samples_) {
    const auto begun = maker_->begin(samples_);
    FOREBAY_CHECK(begun);  // the host's feed has taken the list
    maker_begun_ = *begun;
    maker_samples_ = samples_;
  }
  for (const StepNumber step : to_ask_) maker_->ask(step / steps_each_, step % steps_each_);
  to_ask_.clear();
}

void RemadeSteps::work() {
  for (;;) {
    auto made = maker_->next();
    if (made) {
      pass_on(std::move(*made));
      continue;
    }
    if (made.error().code() == Code::kCancelled) return;
    // The consumer's batches occupy the memory, and nobody is told when it releases them.
    MutexLock lock(mutex_);
    clock_.wait_until(mutex_, freed_, clock_.now_ns() + kLookNs);
  }
}

void RemadeSteps::pass_on(feed::MadeStep made) {
  std::optional<Remade> remade;
  {
    MutexLock lock(mutex_);
    const StepNumber step = made.epoch * steps_each_ + made.step;
    const auto found = reasons_.find(step);
    const bool is_of_now = made.begun == maker_begun_ && maker_samples_ == samples_;
    if (!is_of_now || found == reasons_.end()) return;
    remade = Remade{begun_, step, std::move(found->second), std::move(made.batch)};
    reasons_.erase(found);
  }
  take_(std::move(*remade));
}

}  // namespace forebay::prep
