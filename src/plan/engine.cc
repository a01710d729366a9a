#include "plan/engine.h"

#include <algorithm>
#include <cmath>

namespace forebay::plan {

namespace {

void erase(std::vector<StepNumber>& steps, StepNumber step) {
  const auto found = std::find(steps.begin(), steps.end(), step);
  if (found != steps.end()) steps.erase(found);
}

}  // namespace

Engine::Engine(const ProngOptions& options)
    : options_(options),
      ledger_(options.first, options.over, options.steps_each),
      sides_(options.sides),
      host_period_(options.host_step_ns) {
  for (uint32_t i = 0; i < std::min<size_t>(options.sides, options.side_steps_ns.size()); ++i) {
    sides_[i].period = PeriodOfMaker(options.side_steps_ns[i]);
  }
  options_.steps_each = std::max<uint64_t>(options.steps_each, 1);
  options_.here_max = std::max(options.here_max, 2 * options.sides);
  options_.kept_max = std::max(options.kept_max, 1u);
}

std::vector<ProngAction> Engine::step(const ProngEvent& event) {
  actions_.clear();
  now_ns_ = std::max(now_ns_, static_cast<double>(event.now_ns));
  on(event);
  give();
  take_back_late();
  rescue_lost();
  plan();
  rescue_lost();  // of what the plan gave up
  const double wake = next_wake_ns();
  // A double above 2^62 may not fit. Nobody waits for a century either.
  wake_ns_ = wake < 0x1p62 ? static_cast<int64_t>(std::ceil(wake)) : INT64_MAX;
  return std::move(actions_);
}

void Engine::on(const ProngEvent& event) {
  using Kind = ProngEvent::Kind;
  const bool is_of_side = event.kind == Kind::kSideUp || event.kind == Kind::kSideDown ||
                          event.kind == Kind::kSideKeeps || event.kind == Kind::kSideGave ||
                          event.kind == Kind::kSideChecked || event.kind == Kind::kSideFailed;
  if (is_of_side && event.side >= sides_.size()) return;
  switch (event.kind) {
    case Kind::kHostAsks:
      return on_host_asks(event.step);
    case Kind::kHostMade:
      return on_host_made(event.step);
    case Kind::kRescued:
      return on_rescued(event.step);
    case Kind::kSideUp:
      sides_[event.side].kept_max = std::clamp(event.keeps, 1u, options_.kept_max);
      return on_side_state(event.side, true);
    case Kind::kSideDown:
      return on_side_state(event.side, false);
    case Kind::kSideKeeps:
      return on_kept(event.side, event.step);
    case Kind::kSideGave:
      return on_gave(event.side, event.step);
    case Kind::kSideChecked:
      return on_checked(event.side, event.step);
    case Kind::kSideFailed:
      return on_failed(event.side, event.step);
    case Kind::kConsumerAsks:
      is_host_short_ = event.is_host_short;
      return on_consumer_asks();
    case Kind::kTick:
      return;
  }
}

void Engine::act(ProngAction::Kind kind, StepNumber step, uint32_t side) {
  actions_.push_back({.kind = kind, .step = step, .side = side});
}

void Engine::on_host_asks(StepNumber step) {
  if (step != ledger_.host_next()) return act(ProngAction::Kind::kHostSkips, step);
  const Place place = ledger_.is_given(step) ? Place::kGiven : ledger_.at(step).place;
  const bool is_open = place == Place::kNobody || place == Place::kSide || place == Place::kKept ||
                       place == Place::kSent;
  const bool is_made = is_open && host_shall_make(step);
  if (is_made && place != Place::kNobody) {
    ++sides_[ledger_.at(step).side].late;
    take_back(step);
  }
  ledger_.pass();
  if (!is_made) return act(ProngAction::Kind::kHostSkips, step);
  Entry& entry = ledger_.change(step);
  entry.place = Place::kHost;
  entry.maker = Maker::kHost;
  entry.asked_ns = now_ns_;
  host_queue_.push_back(step);
  host_front_ = step;
  act(ProngAction::Kind::kHostMakes, step);
}

void Engine::on_host_made(StepNumber step) {
  if (ledger_.at(step).place != Place::kHost) return;
  Entry& entry = ledger_.change(step);
  const bool is_alone =
      rescuing_.empty() && rescue_end_ns_ <= host_period_.start_ns(entry.asked_ns);
  if (is_alone) {
    host_period_.ready(entry.asked_ns, now_ns_);
  } else {
    host_period_.ready_unmeasured(now_ns_);
  }
  ledger_.arrive(step);
  erase(host_queue_, step);
}

void Engine::on_rescued(StepNumber step) {
  if (ledger_.at(step).place != Place::kRescue) return;
  rescue_end_ns_ = now_ns_;
  ledger_.arrive(step);
  erase(rescuing_, step);
}

void Engine::on_side_state(uint32_t number, bool is_up) {
  Side& side = sides_[number];
  std::vector<StepNumber> lost;
  std::vector<StepNumber> compared;
  for (const auto& [step, entry] : ledger_.entries()) {
    const bool has_it =
        entry.place == Place::kSide || entry.place == Place::kKept || entry.place == Place::kSent;
    if (has_it && entry.side == number) lost.push_back(step);
    const bool is_compared = entry.place == Place::kRescue && entry.maker == Maker::kSide;
    if (is_compared && entry.side == number) compared.push_back(step);
  }
  // It may be down because what it made was wrong: only the host's counts.
  for (const StepNumber step : compared) {
    ledger_.change(step).maker = Maker::kRescue;
    --side.here;
    set_held(side, side.held - 1);
    ++rescues_;
  }
  for (const StepNumber step : lost) {
    detach(step);
    ledger_.release(step);
  }
  if (side.held == 0) empty_ += (is_up ? 1u : 0u) - (side.is_up ? 1u : 0u);
  side.is_up = is_up;
  side.failures = 0;
  side.rest_until_ns = 0;
  on_sides_changed();
}

void Engine::on_kept(uint32_t number, StepNumber step) {
  const Entry& entry = ledger_.at(step);
  if (entry.place != Place::kSide || entry.side != number || entry.is_sent) return;
  finish(number, step);
  ledger_.change(step).place = Place::kKept;
  ++sides_[number].kept;
}

// Learns from a step that has come from a side. False if nobody waits for it any more.
bool Engine::on_came(uint32_t number, StepNumber step) {
  const Entry& entry = ledger_.at(step);
  if (entry.side != number) return false;
  if (entry.place == Place::kSide && entry.is_sent) {
    finish(number, step);
  } else if (entry.place == Place::kSent) {
    sides_[number].transfer.ready(entry.asked_ns, now_ns_);
    detach(step);
  } else {
    return false;
  }
  ++sides_[number].here;
  set_held(sides_[number], sides_[number].held + 1);
  return true;
}

void Engine::on_gave(uint32_t number, StepNumber step) {
  if (on_came(number, step)) ledger_.arrive(step);
}

// The host works at it now, so that its side is not late with it.
void Engine::on_checked(uint32_t number, StepNumber step) {
  if (!on_came(number, step)) return;
  Entry& entry = ledger_.change(step);
  entry.place = Place::kRescue;
  entry.asked_ns = now_ns_;
  rescuing_.push_back(step);
}

// Learns from a step that a side has prepared.
void Engine::finish(uint32_t number, StepNumber step) {
  Side& side = sides_[number];
  const Entry& entry = ledger_.at(step);
  side.period.ready(entry.asked_ns, now_ns_);
  const double late_ns = std::isinf(entry.due_ns) ? 0 : std::max(0.0, now_ns_ - entry.due_ns);
  side.late_ns += (std::min(late_ns, side.period.step().ns()) - side.late_ns) / 4;
  side.failures = 0;
  detach(step);
}

void Engine::on_failed(uint32_t number, StepNumber step) {
  const Entry& entry = ledger_.at(step);
  const bool has_it =
      entry.place == Place::kSide || entry.place == Place::kKept || entry.place == Place::kSent;
  if (!has_it || entry.side != number) return;
  detach(step);
  ledger_.change(step).is_for_host = true;
  ledger_.release(step);
  rest(sides_[number]);
}

// A side that fails at once must not be asked for one step after the other in no time.
void Engine::rest(Side& side) {
  const double step_ns = std::max(host_step_ns(), side.period.step().ns());
  side.rest_until_ns = now_ns_ + (std::isinf(step_ns) ? 1 : step_ns) * std::exp2(side.failures);
  // 2^10 steps are long enough, and the number stays small.
  side.failures = std::min(side.failures + 1, 10u);
}

void Engine::on_consumer_asks() {
  if (is_waiting_) return;
  is_waiting_ = true;
  if (given_ns_) consumer_step_.add(now_ns_ - *given_ns_);
}

void Engine::give() {
  if (!is_waiting_) return;
  const std::optional<StepNumber> step = next_to_give();
  if (!step) return;
  const Entry& entry = ledger_.at(*step);
  if (entry.maker == Maker::kSide) {
    Side& side = sides_[entry.side];
    --side.here;
    ++side.steps;
    set_held(side, side.held - 1);
  } else {
    ++host_steps_;
  }
  if (entry.maker == Maker::kRescue) --rescues_;
  ledger_.give(*step);
  is_waiting_ = false;
  given_ns_ = now_ns_;
  act(ProngAction::Kind::kGive, *step);
}

void Engine::ask(uint32_t number, StepNumber step, bool is_sent) {
  Side& side = sides_[number];
  const double due_ns = side_free_ns(number) + side_step_ns(number);
  Entry& entry = ledger_.change(step);
  entry = {.place = Place::kSide,
           .maker = Maker::kSide,
           .side = number,
           .is_sent = is_sent,
           .asked_ns = now_ns_,
           .due_ns = due_ns};
  ledger_.find(step);
  side.queue.push_back(step);
  see_queue(side);
  if (is_sent) set_held(side, side.held + 1);
  side.front = step;
  act(is_sent ? ProngAction::Kind::kFetch : ProngAction::Kind::kMake, step, number);
}

void Engine::send(StepNumber step) {
  Entry& entry = ledger_.change(step);
  Side& side = sides_[entry.side];
  entry.place = Place::kSent;
  entry.asked_ns = now_ns_;
  --side.kept;
  side.sending.push_back(step);
  set_held(side, side.held + 1);
  act(ProngAction::Kind::kFetch, step, entry.side);
}

// Removes a step from the lists of the side that has it.
void Engine::detach(StepNumber step) {
  const Entry& entry = ledger_.at(step);
  Side& side = sides_[entry.side];
  if (entry.place == Place::kKept) --side.kept;
  const bool is_held =
      entry.place == Place::kSent || (entry.place == Place::kSide && entry.is_sent);
  if (is_held) set_held(side, side.held - 1);
  erase(side.queue, step);
  erase(side.sending, step);
  see_queue(side);
}

void Engine::see_queue(Side& side) {
  if (side.queue.empty()) return;
  side.begun_ns = side.period.start_ns(ledger_.at(side.queue.front()).asked_ns);
}

void Engine::set_held(Side& side, uint32_t held) {
  held_ += held - side.held;
  if (side.is_up) empty_ += (held == 0 ? 1u : 0u) - (side.held == 0 ? 1u : 0u);
  side.held = held;
}

void Engine::take_back(StepNumber step) {
  const Entry& entry = ledger_.at(step);
  Side& side = sides_[entry.side];
  if (!side.queue.empty() && side.queue.front() == step) {
    side.period.give_up(entry.asked_ns, now_ns_);
  }
  detach(step);
  act(ProngAction::Kind::kForget, step, entry.side);
  ledger_.release(step);
}

bool Engine::has_room_here(uint32_t number) const {
  // One place belongs to each side that is up.
  return held_ < options_.here_max &&
         (sides_[number].held == 0 || held_ + empty_ < options_.here_max);
}

// A side that never idles has the next step when it is done with one. If what it has lasts longer
// than a step of the host, then there is time to ask later, when more is known. What a side can do
// is found out with one step.
bool Engine::may_ask(uint32_t number) const {
  const Side& side = sides_[number];
  if (!side.is_up || side.rest_until_ns > now_ns_) return false;
  if (side.queue.empty()) return true;
  if (!side.period.step().is_sure() || std::isinf(host_step_ns())) return false;
  return side_free_ns(number) <= now_ns_ + std::max(host_step_ns(), side.period.step().ns() / 2);
}

bool Engine::is_side_up() const {
  return std::any_of(sides_.begin(), sides_.end(), [](const Side& side) { return side.is_up; });
}

ProngShare Engine::host() const {
  return {.steps = host_steps_, .step_ns = host_period_.step().ns(), .front = host_front_};
}

ProngShare Engine::side(uint32_t number) const {
  if (number >= sides_.size()) return {};
  const Side& side = sides_[number];
  return {.steps = side.steps,
          .step_ns = side.period.step().ns(),
          .front = side.front,
          .late = side.late};
}

}  // namespace forebay::plan
