// Steps that the host prepares out of turn: steps that did not come in time, and steps of a prep
// server that are compared.
#include <algorithm>

#include "prep/host/epoch_share.h"

namespace forebay::prep {

using base::Code;
using base::MutexLock;

namespace {

// The host also makes the first step of a server and one in so many later steps, and compares them.
constexpr uint64_t kCheckedOneOf = 100;
constexpr int64_t kLookNs = 50'000'000;  // how often to check whether there is memory again

// Whether two batches and their bad samples are equal.
bool are_equal(const feed::Prepared& one, const feed::Prepared& other) {
  const BatchBytes a = encode_batch(*one.batch, one.bad, "");
  const BatchBytes b = encode_batch(*other.batch, other.bad, "");
  return a.head == b.head && std::ranges::equal(a.rest, b.rest, [](Bytes x, Bytes y) {
           return std::ranges::equal(x, y);
         });
}

// The options for steps that are made out of turn.
feed::FeedOptions out_of_turn(feed::FeedOptions options) {
  options.prefetch = 1;
  options.memory_bytes_max /= 4;
  return options;
}

}  // namespace

bool EpochShare::is_to_check(uint32_t server) {
  Server& of = servers_[server];
  return of.checked == 0 || random_.below(kCheckedOneOf) == 0;
}

void EpochShare::remake(StepNumber step, Remade remade) {
  const bool is_rescue = remade.is_rescue;
  const auto [at, is_new] = remade_.try_emplace(step, std::move(remade));
  at->second.is_rescue |= is_rescue;
  if (!is_new) return;  // the step is already being remade
  to_remake_.push_back(step);
  watched_.notify_all();
}

void EpochShare::ask_maker() {
  if (maker_ == nullptr) {
    auto maker = feed::StepMaker::open(setup_.dataset, out_of_turn(setup_.options));
    FOREBAY_CHECK(maker);  // the host's feed was opened with these options
    maker_ = std::move(*maker);
    maker_crew_.start(1, [this](uint32_t) { work_out_of_turn(); });
  }
  MutexLock lock(mutex_);
  if (maker_samples_ != samples_) {
    const auto begun = maker_->begin(samples_);
    FOREBAY_CHECK(begun);  // the host's feed has taken the list
    maker_begun_ = *begun;
    maker_samples_ = samples_;
  }
  for (const StepNumber step : to_remake_) maker_->ask(step / steps_each_, step % steps_each_);
  to_remake_.clear();
}

void EpochShare::work_out_of_turn() {
  for (;;) {
    auto made = maker_->next();
    if (made) {
      take_remade(std::move(*made));
      continue;
    }
    if (made.error().code() == Code::kCancelled) return;
    // The consumer's batches occupy the memory, and nobody is told when it releases them.
    MutexLock lock(mutex_);
    clock_.wait_until(mutex_, freed_, clock_.now_ns() + kLookNs);
  }
}

void EpochShare::take_remade(feed::MadeStep made) {
  std::vector<PolicyAction> actions;
  {
    MutexLock lock(mutex_);
    const StepNumber step = number(made.epoch, made.step);
    const auto found = remade_.find(step);
    const bool is_of_now = made.begun == maker_begun_ && maker_samples_ == samples_;
    if (policy_ == nullptr || !is_of_now || found == remade_.end()) return;
    Remade remade = std::move(found->second);
    remade_.erase(found);
    ++before_.remade_steps;
    if (made.batch) {
      actions = settle(step, std::move(remade), std::move(*made.batch));
    } else {
      actions = note_not_remade(step, std::move(remade), made.batch.error());
    }
  }
  act(actions);
}

// Takes a step that was prepared out of turn, to compare it, give it, or both.
std::vector<PolicyAction> EpochShare::settle(StepNumber step, Remade remade, feed::Prepared batch) {
  std::vector<PolicyAction> actions;
  const bool is_good = !remade.checks || are_equal(remade.received, batch);
  // There is little memory for steps made out of turn, so the received copy is given.
  here_[step] = remade.checks && is_good ? std::move(remade.received) : std::move(batch);
  if (remade.checks) {
    Server& server = servers_[*remade.checks];
    ++server.checked;
    if (!is_good) {
      server.is_banned = true;
      actions = lose(*remade.checks,
                     fmt::format("it sent a wrong batch (step {} of epoch {}), so it is no longer "
                                 "used",
                                 step % steps_each_, step / steps_each_));
    }
  }
  const auto more = tell(PolicyEvent::Kind::kRescued, step);
  actions.insert(actions.end(), more.begin(), more.end());
  return actions;
}

std::vector<PolicyAction> EpochShare::note_not_remade(StepNumber step, Remade remade,
                                                      const Status& status) {
  if (remade.is_rescue) {
    failed_ = status;
    failed_step_ = step;
    given_.notify_all();
    return {};
  }
  if (status.code() != Code::kNoMemory) {
    remake(step, {.is_rescue = true});  // once more, without comparing
    return {};
  }
  // The memory for steps out of turn did not suffice, so the received copy is used unchecked.
  servers_[*remade.checks].trouble = "a batch could not be compared: " + status.message();
  here_[step] = std::move(remade.received);
  return tell(PolicyEvent::Kind::kRescued, step);
}

}  // namespace forebay::prep
