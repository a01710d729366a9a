#include "plan/testing/prong_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace forebay::plan {

namespace {
constexpr uint64_t kEvents = 100'000;
}  // namespace

ProngWorld::ProngWorld(sim::Simulator& simulator, WorldModel model, std::unique_ptr<Prongs> prongs)
    : sim_(simulator),
      model_(std::move(model)),
      prongs_(std::move(prongs)),
      host_(simulator, model_.host) {
  model_.options.sides = static_cast<uint32_t>(model_.sides.size());
  if (prongs_ == nullptr) prongs_ = Prongs::make(model_.options);
  for (const SideModel& side : model_.sides) {
    const auto own = [&] { return std::make_shared<Processors>(simulator, side.speed); };
    sides_.emplace_back().processors = side.processors ? side.processors : own();
  }
  host_next_ = model_.options.first;
  end_ =
      model_.is_cut ? UINT64_MAX : model_.options.first + model_.steps + model_.options.over.size();
  seen_.insert(model_.options.over.begin(), model_.options.over.end());
}

void ProngWorld::begin() {
  const double start_ns = model_.start_ns;
  for (uint32_t i = 0; i < sides_.size(); ++i) {
    const std::vector<double>& changes_ns = model_.sides[i].changes_ns;
    const auto later = std::ranges::upper_bound(changes_ns, start_ns);
    bool is_up = (later - changes_ns.begin()) % 2 == 0;
    if (is_up) at(start_ns, [this, i] { side_goes(i, true); });
    for (auto change = later; change != changes_ns.end(); ++change) {
      is_up = !is_up;
      at(*change, [this, i, is_up] { side_goes(i, is_up); });
    }
  }
  at(start_ns, [this] { ask_for_host(); });
  at(start_ns, [this] {
    is_waiting_ = true;
    tell(ProngEvent::Kind::kConsumerAsks);
  });
}

void ProngWorld::run() {
  begin();
  const base::Status status = sim_.run(kEvents);
  if (!status.ok()) fail(status.message(), 0);
  if (!is_done()) fail("the run stopped before the end", prongs_->position());
}

void ProngWorld::fail(const std::string& what, StepNumber step) {
  if (problem_.empty()) problem_ = fmt::format("{}: step {} at {}", what, step, now());
}

void ProngWorld::at(double time_ns, std::function<void()> event) {
  if (std::isinf(time_ns)) return;
  sim_.after(static_cast<int64_t>(std::max(std::ceil(time_ns - now()), 0.0)), std::move(event));
}

void ProngWorld::tell(ProngEvent::Kind kind, StepNumber step, uint32_t side) {
  if (is_done()) return;
  ++counts_.events;
  ProngEvent event{.kind = kind, .now_ns = sim_.clock().now_ns(), .step = step, .side = side};
  if (kind == ProngEvent::Kind::kSideUp) event.keeps = model_.sides[side].keeps;
  event.is_host_short = model_.is_host_short;
  const auto actions = prongs_->step(event);
  for (const ProngAction& action : actions) act(action);
  if (kind == ProngEvent::Kind::kConsumerAsks && given_.size() % 16 == 0) check_position();
  const int64_t wake_ns = prongs_->wake_ns();
  if (wake_ns != INT64_MAX && wake_ns != wake_ns_) {
    at(static_cast<double>(wake_ns), [this, wake_ns] {
      if (prongs_->wake_ns() == wake_ns) tell(ProngEvent::Kind::kTick);
    });
  }
  wake_ns_ = wake_ns;
  ask_for_host();
}

void ProngWorld::act(const ProngAction& action) {
  using Kind = ProngAction::Kind;
  switch (action.kind) {
    case Kind::kHostMakes:
      of_host_.insert(action.step);
      host_queue_.push_back(action.step);
      if (host_queue_.size() == 1) start_host();
      return;
    case Kind::kHostSkips:
      return;
    case Kind::kMake:
    case Kind::kFetch: {
      ++asked_;
      Side& side = sides_[action.side];
      ++counts_.messages;
      if (action.kind == Kind::kFetch) fetched_[action.step] = action.side;
      counts_.fetched_most = std::max(counts_.fetched_most, fetched_.size());
      // One more may be what the consumer waits for.
      if (fetched_.size() > 1 + std::max<size_t>(model_.options.here_max, 2 * sides_.size())) {
        fail("too many steps take memory", action.step);
      }
      if (!side.is_up) return fail("a side was asked that is down", action.step);
      if (action.step >= model_.options.end)
        fail("a step was asked for after the end", action.step);
      if (action.kind == Kind::kFetch && side.kept.contains(action.step)) {
        --asked_;
        side.kept.erase(action.step);
        return send(action.side, action.step);
      }
      side.orders.push_back({action.step, action.kind == Kind::kFetch});
      counts_.orders_most = std::max(counts_.orders_most, side.orders.size());
      return start_side(action.side);
    }
    case Kind::kForget:
      ++counts_.messages;
      ++counts_.forgotten;
      fetched_.erase(action.step);
      return forget(action.side, action.step);
    case Kind::kRescue:
      ++rescues_;
      host_.begin([this, step = action.step] { made_by_host(ProngEvent::Kind::kRescued, step); });
      return;
    case Kind::kGive:
      return give(action.step);
  }
}

void ProngWorld::check_position() {
  const std::vector<StepNumber> over = prongs_->over();
  const bool all_given =
      std::all_of(over.begin(), over.end(), [&](StepNumber step) { return seen_.contains(step); });
  const bool fits = prongs_->position() - model_.options.first + over.size() == seen_.size();
  if (!all_given || !fits) fail("position() or over() is wrong", prongs_->position());
}

// --- the host: the step in work and all rescues share its processors

void ProngWorld::ask_for_host() {
  if (is_asking_) return;
  is_asking_ = true;
  while (of_host_.size() < model_.prefetch && host_queue_.size() < model_.begun_most &&
         host_next_ < end_ && !is_done()) {
    tell(ProngEvent::Kind::kHostAsks, host_next_++);
  }
  is_asking_ = false;
}

void ProngWorld::start_host() {
  host_.begin([this] {
    const StepNumber step = host_queue_.front();
    host_queue_.pop_front();
    if (!host_queue_.empty()) start_host();
    made_by_host(ProngEvent::Kind::kHostMade, step);
  });
}

void ProngWorld::made_by_host(ProngEvent::Kind kind, StepNumber step) {
  here_.insert(step);
  tell(kind, step);
}

// --- near sides

void ProngWorld::side_goes(uint32_t number, bool is_up) {
  Side& side = sides_[number];
  side.is_up = is_up;
  if (side.task) side.processors->drop(*side.task);
  std::erase_if(fetched_, [&](const auto& fetched) {
    return fetched.second == number && !here_.contains(fetched.first);
  });
  side.orders.clear();
  side.kept.clear();
  side.task.reset();
  side.drops_work = false;
  side.sending.clear();
  ++side.line;
  tell(is_up ? ProngEvent::Kind::kSideUp : ProngEvent::Kind::kSideDown, 0, number);
}

void ProngWorld::start_side(uint32_t number) {
  Side& side = sides_[number];
  if (side.task || side.orders.empty()) return;
  side.drops_work = false;
  side.task = side.processors->begin([this, number] { side_made(number); });
}

void ProngWorld::side_made(uint32_t number) {
  Side& side = sides_[number];
  side.task.reset();
  const bool is_dropped = side.drops_work;
  side.drops_work = false;
  const Order order = is_dropped ? Order{} : side.orders.front();
  if (!is_dropped) side.orders.pop_front();
  start_side(number);
  if (is_dropped) return;
  ++counts_.messages;
  const double failing = model_.sides[number].failing;
  if (failing > 0 && sim_.random().uniform() < failing) {
    fetched_.erase(order.step);
    return tell(ProngEvent::Kind::kSideFailed, order.step, number);
  }
  if (order.is_sent) return send(number, order.step);
  side.kept.insert(order.step);
  const uint32_t keeps = model_.sides[number].keeps;
  if (side.kept.size() > std::min(keeps, model_.options.kept_max))
    fail("a side keeps too much", order.step);
  tell(ProngEvent::Kind::kSideKeeps, order.step, number);
}

void ProngWorld::send(uint32_t number, StepNumber step) {
  sides_[number].sending.push_back(step);
  if (sides_[number].sending.size() == 1) start_line(number);
}

void ProngWorld::start_line(uint32_t number) {
  Side& side = sides_[number];
  const uint64_t line = ++side.line;
  if (side.sending.empty()) return;
  const std::vector<double>& first = model_.sides[number].first_transfers_ns;
  const bool is_first = side.transfers < first.size();
  const double transfer_ns = is_first ? first[side.transfers] : model_.sides[number].transfer_ns;
  ++side.transfers;
  at(now() + transfer_ns, [this, number, line] {
    Side& sender = sides_[number];
    if (line != sender.line) return;
    const StepNumber step = sender.sending.front();
    sender.sending.pop_front();
    start_line(number);
    const double checked = model_.sides[number].checked;
    if (checked > 0 && sim_.random().uniform() < checked) {
      host_.begin([this, step] { made_by_host(ProngEvent::Kind::kRescued, step); });
      return tell(ProngEvent::Kind::kSideChecked, step, number);
    }
    here_.insert(step);
    tell(ProngEvent::Kind::kSideGave, step, number);
  });
}

// A step in work is worked off, as by a decoder that cannot be stopped, but its sending is stopped.
void ProngWorld::forget(uint32_t number, StepNumber step) {
  Side& side = sides_[number];
  side.kept.erase(step);
  if (!side.sending.empty() && side.sending.front() == step) {
    side.sending.pop_front();
    start_line(number);
  }
  std::erase(side.sending, step);
  const auto found = std::find_if(side.orders.begin(), side.orders.end(),
                                  [&](const Order& order) { return order.step == step; });
  if (found == side.orders.end()) return;
  if (found == side.orders.begin() && side.task && !side.drops_work) side.drops_work = true;
  side.orders.erase(found);
}

// --- the consumer

void ProngWorld::give(StepNumber step) {
  const uint64_t each = model_.options.steps_each;
  if (!is_waiting_) fail("nobody asked for a step", step);
  if (!here_.contains(step)) fail("a step was given that is not here", step);
  if (!seen_.insert(step).second) fail("a step was given twice", step);
  if (step >= end_) fail("a step after the end was given", step);
  const StepNumber first = model_.options.first;
  const StepNumber before = std::max(first, step / each * each);
  // All steps of the epochs before have been given: they are all in seen_.
  if (seen_.size() < 1 + before - first) fail("a step was given before its epoch", step);
  const bool is_ordered =
      model_.options.policy == ProngPolicy::kInterleave && !model_.options.any_order;
  if (is_ordered && !given_.empty() && step < given_.back()) fail("out of order", step);
  is_waiting_ = false;
  of_host_.erase(step);
  fetched_.erase(step);
  given_.push_back(step);
  given_ns_.push_back(now());
  const double done_ns = model_.consumer.end_ns(now(), 1);
  end_ns_ = done_ns;
  at(done_ns, [this] {
    is_waiting_ = true;
    tell(ProngEvent::Kind::kConsumerAsks);
  });
}

}  // namespace forebay::plan
