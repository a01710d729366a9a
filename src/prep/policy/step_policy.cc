#include "prep/policy/step_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forebay::prep {

namespace {

void erase(std::vector<StepNumber>& steps, StepNumber step) {
  const auto found = std::find(steps.begin(), steps.end(), step);
  if (found != steps.end()) steps.erase(found);
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The time that a prep server is assumed to need for its first step, in steps of the host: it is
// often the smaller machine. If that is too short, the host takes the step back and assumes more.
constexpr double kFirstGuess = 8;
// A step that is late by this many periods of its server is taken back. DDLP has the same deadline
// for its storage devices.
constexpr double kLatePeriods = 3;

// When work that began at `start_ns` and usually takes `step_ns` will be ready. Late work is
// expected to take as long again as it is late already.
double expected_ns(double start_ns, double step_ns, double now_ns) {
  const double due_ns = start_ns + step_ns;
  return std::max(due_ns, 2 * now_ns - due_ns);
}

}  // namespace

StepPolicy::StepPolicy(const PolicyOptions& options)
    : options_(options),
      table_(options.first, options.over, options.steps_each),
      servers_(options.servers),
      host_period_(options.host_step_ns) {
  for (uint32_t i = 0; i < std::min<size_t>(options.servers, options.server_steps_ns.size()); ++i) {
    servers_[i].period = PeriodOfMaker(options.server_steps_ns[i]);
  }
  options_.steps_each = std::max<uint64_t>(options.steps_each, 1);
  options_.here_max = std::max(options.here_max, 2 * options.servers);
  options_.kept_max = std::max(options.kept_max, 1u);
}

std::vector<PolicyAction> StepPolicy::step(const PolicyEvent& event) {
  actions_.clear();
  now_ns_ = std::max(now_ns_, static_cast<double>(event.now_ns));
  on(event);
  give();
  take_back_late();
  rescue_lost();
  plan();
  rescue_lost();  // steps that the plan gave up
  const double wake = next_wake_ns();
  // Larger doubles may not fit into an int64_t, and 2^62 ns is more than a century.
  wake_ns_ = wake < 0x1p62 ? static_cast<int64_t>(std::ceil(wake)) : INT64_MAX;
  return std::move(actions_);
}

void StepPolicy::on(const PolicyEvent& event) {
  using Kind = PolicyEvent::Kind;
  const bool is_of_server = event.kind == Kind::kServerUp || event.kind == Kind::kServerDown ||
                            event.kind == Kind::kServerKeeps || event.kind == Kind::kServerGave ||
                            event.kind == Kind::kServerChecked || event.kind == Kind::kServerFailed;
  if (is_of_server && event.server >= servers_.size()) return;
  switch (event.kind) {
    case Kind::kHostAsks:
      return on_host_asks(event.step);
    case Kind::kHostMade:
      return on_host_made(event.step);
    case Kind::kRescued:
      return on_rescued(event.step);
    case Kind::kServerUp:
      servers_[event.server].kept_max = std::clamp(event.keeps, 1u, options_.kept_max);
      return on_server_state(event.server, true);
    case Kind::kServerDown:
      return on_server_state(event.server, false);
    case Kind::kServerKeeps:
      return on_kept(event.server, event.step);
    case Kind::kServerGave:
      return on_gave(event.server, event.step);
    case Kind::kServerChecked:
      return on_checked(event.server, event.step);
    case Kind::kServerFailed:
      return on_failed(event.server, event.step);
    case Kind::kConsumerAsks:
      is_host_short_ = event.is_host_short;
      return on_consumer_asks();
    case Kind::kTick:
      return;
  }
}

void StepPolicy::act(PolicyAction::Kind kind, StepNumber step, uint32_t server) {
  actions_.push_back({.kind = kind, .step = step, .server = server});
}

void StepPolicy::on_host_asks(StepNumber step) {
  if (step != table_.host_next()) return act(PolicyAction::Kind::kHostSkips, step);
  const StepState state = table_.is_given(step) ? StepState::kGiven : table_.at(step).state;
  const bool is_open = state == StepState::kNobody || state == StepState::kServer ||
                       state == StepState::kKept || state == StepState::kSent;
  const bool is_made = is_open && host_shall_make(step);
  if (is_made && state != StepState::kNobody) {
    ++servers_[table_.at(step).server].late;
    take_back(step);
  }
  table_.pass();
  if (!is_made) return act(PolicyAction::Kind::kHostSkips, step);
  Entry& entry = table_.change(step);
  entry.state = StepState::kHost;
  entry.maker = Maker::kHost;
  entry.asked_ns = now_ns_;
  host_queue_.push_back(step);
  host_front_ = step;
  act(PolicyAction::Kind::kHostMakes, step);
}

void StepPolicy::on_host_made(StepNumber step) {
  if (table_.at(step).state != StepState::kHost) return;
  Entry& entry = table_.change(step);
  const bool is_alone =
      rescuing_.empty() && rescue_end_ns_ <= host_period_.start_ns(entry.asked_ns);
  if (is_alone) {
    host_period_.ready(entry.asked_ns, now_ns_);
  } else {
    host_period_.ready_unmeasured(now_ns_);
  }
  table_.arrive(step);
  erase(host_queue_, step);
}

void StepPolicy::on_rescued(StepNumber step) {
  if (table_.at(step).state != StepState::kRescue) return;
  rescue_end_ns_ = now_ns_;
  table_.arrive(step);
  erase(rescuing_, step);
}

void StepPolicy::on_server_state(uint32_t number, bool is_up) {
  Server& server = servers_[number];
  std::vector<StepNumber> lost;
  std::vector<StepNumber> compared;
  for (const auto& [step, entry] : table_.entries()) {
    const bool has_it = entry.state == StepState::kServer || entry.state == StepState::kKept ||
                        entry.state == StepState::kSent;
    if (has_it && entry.server == number) lost.push_back(step);
    const bool is_compared = entry.state == StepState::kRescue && entry.maker == Maker::kServer;
    if (is_compared && entry.server == number) compared.push_back(step);
  }
  // The server may be down because it made wrong steps, so the host's own copies are given.
  for (const StepNumber step : compared) {
    table_.change(step).maker = Maker::kRescue;
    --server.here;
    set_held(server, server.held - 1);
    ++rescues_;
  }
  for (const StepNumber step : lost) {
    detach(step);
    table_.release(step);
  }
  if (server.held == 0) empty_ += (is_up ? 1u : 0u) - (server.is_up ? 1u : 0u);
  server.is_up = is_up;
  server.failures = 0;
  server.rest_until_ns = 0;
  on_servers_changed();
}

void StepPolicy::on_kept(uint32_t number, StepNumber step) {
  const Entry& entry = table_.at(step);
  if (entry.state != StepState::kServer || entry.server != number || entry.is_sent) return;
  finish(number, step);
  table_.change(step).state = StepState::kKept;
  ++servers_[number].kept;
}

// Learns from a step that has arrived from a server. False if nobody waits for the step any longer.
bool StepPolicy::on_came(uint32_t number, StepNumber step) {
  const Entry& entry = table_.at(step);
  if (entry.server != number) return false;
  if (entry.state == StepState::kServer && entry.is_sent) {
    finish(number, step);
  } else if (entry.state == StepState::kSent) {
    servers_[number].transfer.ready(entry.asked_ns, now_ns_);
    detach(step);
  } else {
    return false;
  }
  ++servers_[number].here;
  set_held(servers_[number], servers_[number].held + 1);
  return true;
}

void StepPolicy::on_gave(uint32_t number, StepNumber step) {
  if (on_came(number, step)) table_.arrive(step);
}

// The host works at the step now, so that the server does not look late with it.
void StepPolicy::on_checked(uint32_t number, StepNumber step) {
  if (!on_came(number, step)) return;
  Entry& entry = table_.change(step);
  entry.state = StepState::kRescue;
  entry.asked_ns = now_ns_;
  rescuing_.push_back(step);
}

// Learns from a step that a server has prepared.
void StepPolicy::finish(uint32_t number, StepNumber step) {
  Server& server = servers_[number];
  const Entry& entry = table_.at(step);
  server.period.ready(entry.asked_ns, now_ns_);
  const double late_ns = std::isinf(entry.due_ns) ? 0 : std::max(0.0, now_ns_ - entry.due_ns);
  server.late_ns += (std::min(late_ns, server.period.step().ns()) - server.late_ns) / 4;
  server.failures = 0;
  detach(step);
}

void StepPolicy::on_failed(uint32_t number, StepNumber step) {
  const Entry& entry = table_.at(step);
  const bool has_it = entry.state == StepState::kServer || entry.state == StepState::kKept ||
                      entry.state == StepState::kSent;
  if (!has_it || entry.server != number) return;
  detach(step);
  table_.change(step).is_for_host = true;
  table_.release(step);
  rest(servers_[number]);
}

// Pauses a server that failed: one that fails at once must not be asked for step after step without
// a break.
void StepPolicy::rest(Server& server) {
  const double step_ns = std::max(host_step_ns(), server.period.step().ns());
  server.rest_until_ns = now_ns_ + (std::isinf(step_ns) ? 1 : step_ns) * std::exp2(server.failures);
  // A pause of 2^10 steps is long enough.
  server.failures = std::min(server.failures + 1, 10u);
}

void StepPolicy::on_consumer_asks() {
  if (is_waiting_) return;
  is_waiting_ = true;
  if (given_ns_) consumer_step_.add(now_ns_ - *given_ns_);
}

void StepPolicy::give() {
  if (!is_waiting_) return;
  const std::optional<StepNumber> step = next_to_give();
  if (!step) return;
  const Entry& entry = table_.at(*step);
  if (entry.maker == Maker::kServer) {
    Server& server = servers_[entry.server];
    --server.here;
    ++server.steps;
    set_held(server, server.held - 1);
  } else {
    ++host_steps_;
  }
  if (entry.maker == Maker::kRescue) --rescues_;
  table_.give(*step);
  is_waiting_ = false;
  given_ns_ = now_ns_;
  act(PolicyAction::Kind::kGive, *step);
}

void StepPolicy::ask(uint32_t number, StepNumber step, bool is_sent) {
  Server& server = servers_[number];
  const double due_ns = server_free_ns(number) + server_step_ns(number);
  Entry& entry = table_.change(step);
  entry = {.state = StepState::kServer,
           .maker = Maker::kServer,
           .server = number,
           .is_sent = is_sent,
           .asked_ns = now_ns_,
           .due_ns = due_ns};
  table_.mark_found(step);
  server.queue.push_back(step);
  see_queue(server);
  if (is_sent) set_held(server, server.held + 1);
  server.front = step;
  act(is_sent ? PolicyAction::Kind::kFetch : PolicyAction::Kind::kMake, step, number);
}

void StepPolicy::send(StepNumber step) {
  Entry& entry = table_.change(step);
  Server& server = servers_[entry.server];
  entry.state = StepState::kSent;
  entry.asked_ns = now_ns_;
  --server.kept;
  server.sending.push_back(step);
  set_held(server, server.held + 1);
  act(PolicyAction::Kind::kFetch, step, entry.server);
}

// Removes a step from its server's lists and counts.
void StepPolicy::detach(StepNumber step) {
  const Entry& entry = table_.at(step);
  Server& server = servers_[entry.server];
  if (entry.state == StepState::kKept) --server.kept;
  const bool is_held =
      entry.state == StepState::kSent || (entry.state == StepState::kServer && entry.is_sent);
  if (is_held) set_held(server, server.held - 1);
  erase(server.queue, step);
  erase(server.sending, step);
  see_queue(server);
}

void StepPolicy::see_queue(Server& server) {
  if (server.queue.empty()) return;
  server.begun_ns = server.period.start_ns(table_.at(server.queue.front()).asked_ns);
}

void StepPolicy::set_held(Server& server, uint32_t held) {
  held_ += held - server.held;
  if (server.is_up) empty_ += (held == 0 ? 1u : 0u) - (server.held == 0 ? 1u : 0u);
  server.held = held;
}

void StepPolicy::take_back(StepNumber step) {
  const Entry& entry = table_.at(step);
  Server& server = servers_[entry.server];
  if (!server.queue.empty() && server.queue.front() == step) {
    server.period.give_up(entry.asked_ns, now_ns_);
  }
  detach(step);
  act(PolicyAction::Kind::kForget, step, entry.server);
  table_.release(step);
}

bool StepPolicy::has_room_here(uint32_t number) const {
  // One place is reserved for each server that is up.
  return held_ < options_.here_max &&
         (servers_[number].held == 0 || held_ + empty_ < options_.here_max);
}

// To keep a server from idling, it must have its next step before it finishes the last one. If its
// queue lasts longer than one step of the host, it can be asked later, when more is known. A server
// of unknown speed gets one step at a time.
bool StepPolicy::may_ask(uint32_t number) const {
  const Server& server = servers_[number];
  if (!server.is_up || server.rest_until_ns > now_ns_) return false;
  if (server.queue.empty()) return true;
  if (!server.period.step().is_sure() || std::isinf(host_step_ns())) return false;
  return server_free_ns(number) <=
         now_ns_ + std::max(host_step_ns(), server.period.step().ns() / 2);
}

bool StepPolicy::is_server_up() const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [](const Server& server) { return server.is_up; });
}

PolicyShare StepPolicy::host() const {
  return {.steps = host_steps_, .step_ns = host_period_.step().ns(), .front = host_front_};
}

PolicyShare StepPolicy::server(uint32_t number) const {
  if (number >= servers_.size()) return {};
  const Server& server = servers_[number];
  return {.steps = server.steps,
          .step_ns = server.period.step().ns(),
          .front = server.front,
          .late = server.late};
}

double StepPolicy::host_step_ns() const {
  return host_period_.step().is_known() ? host_period_.step().ns() : kInfinite;
}

double StepPolicy::server_step_ns(uint32_t number) const {
  const Period& step = servers_[number].period.step();
  return step.is_known() ? step.ns() : kFirstGuess * host_step_ns();
}

double StepPolicy::transfer_ns(uint32_t number) const {
  // Before the first transfer: at most as long as preparing and sending a step together.
  const Period& step = servers_[number].transfer.step();
  return step.is_known() ? step.ns() : server_step_ns(number);
}

double StepPolicy::sending_since_ns(uint32_t number) const {
  const Server& server = servers_[number];
  return server.transfer.start_ns(table_.at(server.sending.front()).asked_ns);
}

// How long sending a step may take before it is given up. Preparing the step again would take one
// of the host's periods, and the host's work slows receiving down.
double StepPolicy::transfer_most_ns(uint32_t number) const {
  const double host_ns = host_period_.step().ns();  // 0: not known
  return (1 + kLatePeriods) * std::max(transfer_ns(number), host_ns);
}

double StepPolicy::rescue_ns() const {
  // A rescue shares the processors with the host's step in progress and with other rescues.
  const size_t sharing = 1 + (host_queue_.empty() ? 0 : 1) + rescuing_.size();
  return static_cast<double>(sharing) * host_step_ns();
}

double StepPolicy::host_free_ns() const {
  const double rescues_ns =
      rescuing_.empty() ? 0 : host_step_ns() * static_cast<double>(rescuing_.size());
  if (host_queue_.empty()) return now_ns_ + rescues_ns;
  const double start_ns = host_period_.start_ns(table_.at(host_queue_.front()).asked_ns);
  const double more = static_cast<double>(host_queue_.size() - 1);
  const double more_ns = more > 0 ? more * host_step_ns() : 0;
  return expected_ns(start_ns, host_step_ns(), now_ns_) + more_ns + rescues_ns;
}

double StepPolicy::queue_ns(uint32_t number, size_t place) const {
  const Server& server = servers_[number];
  const double first_ns = expected_ns(server.begun_ns, server_step_ns(number), now_ns_);
  // If the first step takes longer than usual, the others probably will as well.
  return place == 0 ? first_ns
                    : first_ns + static_cast<double>(place) * (first_ns - server.begun_ns);
}

double StepPolicy::server_free_ns(uint32_t number) const {
  const Server& server = servers_[number];
  const double free_ns = server.queue.empty() ? now_ns_ : queue_ns(number, server.queue.size() - 1);
  return std::max(free_ns, server.rest_until_ns);
}

double StepPolicy::arrival_ns(StepNumber step) const {
  const Entry& entry = table_.at(step);
  if (entry.state == StepState::kServer) {
    const std::vector<StepNumber>& queue = servers_[entry.server].queue;
    const auto place = std::find(queue.begin(), queue.end(), step) - queue.begin();
    return queue_ns(entry.server, static_cast<size_t>(place));
  }
  if (entry.state == StepState::kSent) {
    const Server& server = servers_[entry.server];
    const auto place = std::find(server.sending.begin(), server.sending.end(), step);
    const double start_ns = sending_since_ns(entry.server);
    const double first_ns = expected_ns(start_ns, transfer_ns(entry.server), now_ns_);
    return first_ns + static_cast<double>(place - server.sending.begin()) * (first_ns - start_ns);
  }
  if (entry.state == StepState::kRescue) return expected_ns(entry.asked_ns, rescue_ns(), now_ns_);
  if (entry.state == StepState::kHost) {
    const auto place = std::find(host_queue_.begin(), host_queue_.end(), step);
    return host_free_ns() - static_cast<double>(host_queue_.end() - place - 1) * host_step_ns();
  }
  return now_ns_;
}

double StepPolicy::consumer_ns() const {
  if (is_waiting_ || !given_ns_) return now_ns_;
  return std::max(now_ns_, *given_ns_ + consumer_step_.ns());
}

// A host without room for more steps begins none, and finishes none of its queue. So the host is
// taken to be at work only while the first step of its queue is not much later than usual or, if
// its queue is empty, for a moment after its last step, in which it begins the next one.
double StepPolicy::waits_free_until_ns() const {
  constexpr double kCatchingUp = 0.6;
  constexpr double kUsual = 1.5;
  constexpr double kToBegin = 0.1;
  const double step_ns = host_step_ns();
  if (!(consumer_step_.ns() < kCatchingUp * step_ns) || std::isinf(step_ns)) return now_ns_;
  if (host_queue_.empty()) return host_period_.start_ns(0) + kToBegin * step_ns;
  return host_period_.start_ns(table_.at(host_queue_.front()).asked_ns) + kUsual * step_ns;
}

bool StepPolicy::is_too_late(StepNumber step, double need_ns) const {
  // If the host makes the step, it loses the time for one step of its own.
  const double made_ns = host_free_ns() + host_step_ns();
  return arrival_ns(step) > std::max(made_ns, need_ns) + host_step_ns();
}

bool StepPolicy::has_host_part() const {
  return table_.host_next() < table_.end_of(epoch()) ||
         std::any_of(
             host_queue_.begin(), host_queue_.end(),
             [&](StepNumber step) { return table_.epoch_of(step) == epoch(); });
}

std::optional<StepPolicy::Needed> StepPolicy::last_of_servers() const {
  if (!is_waiting_ || has_host_part()) return {};
  std::optional<StepNumber> last;
  for (const Server& server : servers_) {
    for (const StepNumber step : server.queue) {
      const bool is_later = !last || arrival_ns(step) > arrival_ns(*last);
      if (table_.epoch_of(step) == epoch() && is_later) last = step;
    }
  }
  return last ? std::optional<Needed>({*last, now_ns_}) : std::nullopt;
}

void StepPolicy::take_back_late() {
  for (uint32_t number = 0; number < servers_.size(); ++number) {
    Server& server = servers_[number];
    const double wait_ns = (1 + kLatePeriods) * server_step_ns(number);
    std::vector<StepNumber> late;
    const bool is_sending_late =
        !server.sending.empty() && now_ns_ >= sending_since_ns(number) + transfer_most_ns(number);
    if (is_sending_late) late = server.sending;
    // The steps after the first one are as late.
    const bool is_first_late = !server.queue.empty() && now_ns_ >= server.begun_ns + wait_ns;
    if (is_first_late) late.insert(late.end(), server.queue.begin(), server.queue.end());
    for (const StepNumber step : late) take_back(step);
    server.late += late.size();
    if (!late.empty()) rest(server);
  }
  const std::optional<Needed> next = waits_for();
  if (!next || next->from_ns > now_ns_ + rescue_ns() || now_ns_ < waits_free_until_ns()) return;
  if (arrival_ns(next->step) - std::max(next->from_ns, now_ns_) <= rescue_ns()) return;
  ++servers_[table_.at(next->step).server].late;
  take_back(next->step);
}

StepNumber StepPolicy::first_needed(const std::set<StepNumber>& lost) const {
  return *lost.begin();
}

void StepPolicy::rescue_lost() {
  while (!table_.lost().empty()) {
    const StepNumber step = first_needed(table_.lost());
    // Rescued steps take memory too, but the step that the consumer waits for cannot be postponed.
    const bool is_urgent = is_waiting_ && rescuing_.empty() && is_needed_now(step);
    if (!may_rescue_ahead() && !is_urgent) return;
    const std::optional<uint32_t> other = sooner_server(step);
    if (other) {
      ask(*other, step, true);
      table_.change(step).is_for_host = true;  // in case that server is late as well
    } else {
      rescue(step);
    }
  }
}

std::optional<uint32_t> StepPolicy::sooner_server(StepNumber step) const {
  const Entry& entry = table_.at(step);
  if (entry.is_for_host) return {};
  std::optional<uint32_t> best;
  double best_ns = now_ns_ + rescue_ns();
  for (uint32_t number = 0; number < servers_.size(); ++number) {
    const Server& server = servers_[number];
    const bool had_it = entry.maker == Maker::kServer && entry.server == number;
    const bool is_able =
        !had_it && server.is_up && server.rest_until_ns <= now_ns_ && has_room_here(number);
    if (!is_able) continue;
    const double ready_ns = server_free_ns(number) + server_step_ns(number);
    if (ready_ns < best_ns) {
      best = number;
      best_ns = ready_ns;
    }
  }
  return best;
}

void StepPolicy::rescue(StepNumber step) {
  Entry& entry = table_.change(step);
  entry.state = StepState::kRescue;
  entry.maker = Maker::kRescue;
  entry.asked_ns = now_ns_;
  table_.mark_found(step);
  rescuing_.push_back(step);
  ++rescues_;
  act(PolicyAction::Kind::kRescue, step);
}

double StepPolicy::next_wake_ns() {
  double wake_ns = kInfinite;
  for (uint32_t number = 0; number < servers_.size(); ++number) {
    const Server& server = servers_[number];
    const double wait_ns = (1 + kLatePeriods) * server_step_ns(number);
    if (server.is_up && server.rest_until_ns > now_ns_)
      wake_ns = std::min(wake_ns, server.rest_until_ns);
    if (!server.sending.empty()) {
      wake_ns = std::min(wake_ns, sending_since_ns(number) + transfer_most_ns(number));
    }
    if (!server.queue.empty()) wake_ns = std::min(wake_ns, server.begun_ns + wait_ns);
  }
  const std::optional<Needed> next = is_waiting_ ? waits_for() : std::nullopt;
  if (next && table_.at(next->step).state == StepState::kSent) {
    // From late_ns on, arrival_ns() of the first step being sent is further away than rescue_ns().
    const uint32_t number = table_.at(next->step).server;
    const double late_ns = sending_since_ns(number) + transfer_ns(number) + rescue_ns();
    wake_ns = std::min(wake_ns, std::max({late_ns, next->from_ns, waits_free_until_ns()}) + 1);
  }
  if (next && table_.at(next->step).state == StepState::kServer) {
    const StepNumber step = next->step;
    // At that time arrival_ns() is further away than rescue_ns(): for this step and each step
    // before it, it grows by twice the time by which the first step of the queue is late.
    const Server& server = servers_[table_.at(step).server];
    const auto place =
        std::find(server.queue.begin(), server.queue.end(), step) - server.queue.begin();
    const double step_ns = server_step_ns(table_.at(step).server);
    const double spare_ns = rescue_ns() - static_cast<double>(place) * step_ns;
    const double late_ns = std::max(0.0, spare_ns) / static_cast<double>(1 + 2 * place);
    wake_ns = std::min(
        wake_ns,
        std::max({server.begun_ns + step_ns + late_ns, next->from_ns, waits_free_until_ns()}) + 1);
  }
  return wake_ns;
}

}  // namespace forebay::prep
