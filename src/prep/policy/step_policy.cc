#include "prep/policy/step_policy.h"

#include <algorithm>
#include <cmath>

namespace forebay::prep {

namespace {

void erase(std::vector<StepNumber>& steps, StepNumber step) {
  const auto found = std::find(steps.begin(), steps.end(), step);
  if (found != steps.end()) steps.erase(found);
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

}  // namespace forebay::prep
