// What the engine expects of the steps that were begun, and what it does about those that are late
// or lost.
#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/engine.h"

namespace forebay::plan {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// What a near side is assumed to need for its first step, in steps of the host: it is the smaller
// machine. If this is too little, the host takes the step back, and more is assumed.
constexpr double kFirstGuess = 8;
// A step that is late by as many periods of its side is taken back (DDLP's storage devices have the
// same deadline).
constexpr double kLatePeriods = 3;

// When something is ready that began at `start_ns` and should take `step_ns`. What is late already
// will probably take as long again as it is late.
double expected_ns(double start_ns, double step_ns, double now_ns) {
  const double due_ns = start_ns + step_ns;
  return std::max(due_ns, 2 * now_ns - due_ns);
}

}  // namespace

double Engine::host_step_ns() const {
  return host_period_.step().is_known() ? host_period_.step().ns() : kInfinite;
}

double Engine::side_step_ns(uint32_t number) const {
  const Period& step = sides_[number].period.step();
  return step.is_known() ? step.ns() : kFirstGuess * host_step_ns();
}

double Engine::transfer_ns(uint32_t number) const {
  // Until one was seen: certainly no longer than it takes to prepare a step and to send it.
  const Period& step = sides_[number].transfer.step();
  return step.is_known() ? step.ns() : side_step_ns(number);
}

double Engine::sending_since_ns(uint32_t number) const {
  const Side& side = sides_[number];
  return side.transfer.start_ns(ledger_.at(side.sending.front()).asked_ns);
}

// How long the step that a side is sending may take. Preparing it again takes one of the host's
// periods, and the host's work makes receiving slow.
double Engine::transfer_most_ns(uint32_t number) const {
  const double host_ns = host_period_.step().ns();  // 0: not known
  return (1 + kLatePeriods) * std::max(transfer_ns(number), host_ns);
}

double Engine::rescue_ns() const {
  // It shares the processors with the step that the host is at and with other rescues.
  const size_t sharing = 1 + (host_queue_.empty() ? 0 : 1) + rescuing_.size();
  return static_cast<double>(sharing) * host_step_ns();
}

double Engine::host_free_ns() const {
  const double rescues_ns =
      rescuing_.empty() ? 0 : host_step_ns() * static_cast<double>(rescuing_.size());
  if (host_queue_.empty()) return now_ns_ + rescues_ns;
  const double start_ns = host_period_.start_ns(ledger_.at(host_queue_.front()).asked_ns);
  const double more = static_cast<double>(host_queue_.size() - 1);
  const double more_ns = more > 0 ? more * host_step_ns() : 0;
  return expected_ns(start_ns, host_step_ns(), now_ns_) + more_ns + rescues_ns;
}

double Engine::queue_ns(uint32_t number, size_t place) const {
  const Side& side = sides_[number];
  const double first_ns = expected_ns(side.begun_ns, side_step_ns(number), now_ns_);
  // If the first step takes longer than usual, the others probably do as well.
  return place == 0 ? first_ns : first_ns + static_cast<double>(place) * (first_ns - side.begun_ns);
}

double Engine::side_free_ns(uint32_t number) const {
  const Side& side = sides_[number];
  const double free_ns = side.queue.empty() ? now_ns_ : queue_ns(number, side.queue.size() - 1);
  return std::max(free_ns, side.rest_until_ns);
}

double Engine::arrival_ns(StepNumber step) const {
  const Entry& entry = ledger_.at(step);
  if (entry.place == Place::kSide) {
    const std::vector<StepNumber>& queue = sides_[entry.side].queue;
    const auto place = std::find(queue.begin(), queue.end(), step) - queue.begin();
    return queue_ns(entry.side, static_cast<size_t>(place));
  }
  if (entry.place == Place::kSent) {
    const Side& side = sides_[entry.side];
    const auto place = std::find(side.sending.begin(), side.sending.end(), step);
    const double start_ns = sending_since_ns(entry.side);
    const double first_ns = expected_ns(start_ns, transfer_ns(entry.side), now_ns_);
    return first_ns + static_cast<double>(place - side.sending.begin()) * (first_ns - start_ns);
  }
  if (entry.place == Place::kRescue) return expected_ns(entry.asked_ns, rescue_ns(), now_ns_);
  if (entry.place == Place::kHost) {
    const auto place = std::find(host_queue_.begin(), host_queue_.end(), step);
    return host_free_ns() - static_cast<double>(host_queue_.end() - place - 1) * host_step_ns();
  }
  return now_ns_;
}

double Engine::consumer_ns() const {
  if (is_waiting_ || !given_ns_) return now_ns_;
  return std::max(now_ns_, *given_ns_ + consumer_step_.ns());
}

// A host that has no room for more steps asks for none, and finishes none of those in its queue. So
// it seems to be at work only while the first of them is not much later than usual; and where it
// has none, for a moment after the last one, in which it begins the next.
double Engine::waits_free_until_ns() const {
  constexpr double kCatchingUp = 0.6;
  constexpr double kUsual = 1.5;
  constexpr double kToBegin = 0.1;
  const double step_ns = host_step_ns();
  if (!(consumer_step_.ns() < kCatchingUp * step_ns) || std::isinf(step_ns)) return now_ns_;
  if (host_queue_.empty()) return host_period_.start_ns(0) + kToBegin * step_ns;
  return host_period_.start_ns(ledger_.at(host_queue_.front()).asked_ns) + kUsual * step_ns;
}

bool Engine::is_too_late(StepNumber step, double need_ns) const {
  // If the host made it, it would lose the time for one step of its own.
  const double made_ns = host_free_ns() + host_step_ns();
  return arrival_ns(step) > std::max(made_ns, need_ns) + host_step_ns();
}

bool Engine::has_host_part() const {
  return ledger_.host_next() < ledger_.end_of(epoch()) ||
         std::any_of(
             host_queue_.begin(), host_queue_.end(),
             [&](StepNumber step) { return ledger_.epoch_of(step) == epoch(); });
}

std::optional<Engine::Needed> Engine::last_of_sides() const {
  if (!is_waiting_ || has_host_part()) return {};
  std::optional<StepNumber> last;
  for (const Side& side : sides_) {
    for (const StepNumber step : side.queue) {
      const bool is_later = !last || arrival_ns(step) > arrival_ns(*last);
      if (ledger_.epoch_of(step) == epoch() && is_later) last = step;
    }
  }
  return last ? std::optional<Needed>({*last, now_ns_}) : std::nullopt;
}

void Engine::take_back_late() {
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    Side& side = sides_[number];
    const double wait_ns = (1 + kLatePeriods) * side_step_ns(number);
    std::vector<StepNumber> late;
    const bool is_sending_late =
        !side.sending.empty() && now_ns_ >= sending_since_ns(number) + transfer_most_ns(number);
    if (is_sending_late) late = side.sending;
    // Those after it are as late as the first one.
    const bool is_first_late = !side.queue.empty() && now_ns_ >= side.begun_ns + wait_ns;
    if (is_first_late) late.insert(late.end(), side.queue.begin(), side.queue.end());
    for (const StepNumber step : late) take_back(step);
    side.late += late.size();
    if (!late.empty()) rest(side);
  }
  const std::optional<Needed> next = waits_for();
  if (!next || next->from_ns > now_ns_ + rescue_ns() || now_ns_ < waits_free_until_ns()) return;
  if (arrival_ns(next->step) - std::max(next->from_ns, now_ns_) <= rescue_ns()) return;
  ++sides_[ledger_.at(next->step).side].late;
  take_back(next->step);
}

StepNumber Engine::first_needed(const std::set<StepNumber>& lost) const { return *lost.begin(); }

void Engine::rescue_lost() {
  while (!ledger_.lost().empty()) {
    const StepNumber step = first_needed(ledger_.lost());
    // What is rescued takes memory as well. But what the consumer waits for cannot wait.
    const bool is_urgent = is_waiting_ && rescuing_.empty() && is_needed_now(step);
    if (!may_rescue_ahead() && !is_urgent) return;
    const std::optional<uint32_t> other = sooner_side(step);
    if (other) {
      ask(*other, step, true);
      ledger_.change(step).is_for_host = true;  // if that side is late as well
    } else {
      rescue(step);
    }
  }
}

std::optional<uint32_t> Engine::sooner_side(StepNumber step) const {
  const Entry& entry = ledger_.at(step);
  if (entry.is_for_host) return {};
  std::optional<uint32_t> best;
  double best_ns = now_ns_ + rescue_ns();
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    const Side& side = sides_[number];
    const bool had_it = entry.maker == Maker::kSide && entry.side == number;
    const bool is_able =
        !had_it && side.is_up && side.rest_until_ns <= now_ns_ && has_room_here(number);
    if (!is_able) continue;
    const double ready_ns = side_free_ns(number) + side_step_ns(number);
    if (ready_ns < best_ns) {
      best = number;
      best_ns = ready_ns;
    }
  }
  return best;
}

void Engine::rescue(StepNumber step) {
  Entry& entry = ledger_.change(step);
  entry.place = Place::kRescue;
  entry.maker = Maker::kRescue;
  entry.asked_ns = now_ns_;
  ledger_.find(step);
  rescuing_.push_back(step);
  ++rescues_;
  act(ProngAction::Kind::kRescue, step);
}

double Engine::next_wake_ns() {
  double wake_ns = kInfinite;
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    const Side& side = sides_[number];
    const double wait_ns = (1 + kLatePeriods) * side_step_ns(number);
    if (side.is_up && side.rest_until_ns > now_ns_) wake_ns = std::min(wake_ns, side.rest_until_ns);
    if (!side.sending.empty()) {
      wake_ns = std::min(wake_ns, sending_since_ns(number) + transfer_most_ns(number));
    }
    if (!side.queue.empty()) wake_ns = std::min(wake_ns, side.begun_ns + wait_ns);
  }
  const std::optional<Needed> next = is_waiting_ ? waits_for() : std::nullopt;
  if (next && ledger_.at(next->step).place == Place::kSent) {
    // arrival_ns() of the first step that is sent is then further away than rescue_ns().
    const uint32_t number = ledger_.at(next->step).side;
    const double late_ns = sending_since_ns(number) + transfer_ns(number) + rescue_ns();
    wake_ns = std::min(wake_ns, std::max({late_ns, next->from_ns, waits_free_until_ns()}) + 1);
  }
  if (next && ledger_.at(next->step).place == Place::kSide) {
    const StepNumber step = next->step;
    // arrival_ns() is then further away than rescue_ns(): it grows by twice the time that the first
    // step of the queue is late, for each step before and including this one.
    const Side& side = sides_[ledger_.at(step).side];
    const auto place = std::find(side.queue.begin(), side.queue.end(), step) - side.queue.begin();
    const double step_ns = side_step_ns(ledger_.at(step).side);
    const double spare_ns = rescue_ns() - static_cast<double>(place) * step_ns;
    const double late_ns = std::max(0.0, spare_ns) / static_cast<double>(1 + 2 * place);
    wake_ns = std::min(
        wake_ns,
        std::max({side.begun_ns + step_ns + late_ns, next->from_ns, waits_free_until_ns()}) + 1);
  }
  return wake_ns;
}

}  // namespace forebay::plan
