#include "prep/policy/testing/policy_world.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace forebay::prep {

namespace {
constexpr uint64_t kEvents = 100'000;
}  // namespace

PolicyWorld::PolicyWorld(sim::Simulator& simulator, WorldModel model,
                         std::unique_ptr<Policy> policy)
    : sim_(simulator),
      model_(std::move(model)),
      policy_(std::move(policy)),
      host_(simulator, model_.host) {
  model_.options.servers = static_cast<uint32_t>(model_.servers.size());
  if (policy_ == nullptr) policy_ = Policy::make(model_.options);
  for (const ServerModel& server : model_.servers) {
    const auto own = [&] { return std::make_shared<Processors>(simulator, server.speed); };
    servers_.emplace_back().processors = server.processors ? server.processors : own();
  }
  host_next_ = model_.options.first;
  end_ =
      model_.is_cut ? UINT64_MAX : model_.options.first + model_.steps + model_.options.over.size();
  seen_.insert(model_.options.over.begin(), model_.options.over.end());
}

void PolicyWorld::begin() {
  const double start_ns = model_.start_ns;
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    const std::vector<double>& changes_ns = model_.servers[i].changes_ns;
    const auto later = std::ranges::upper_bound(changes_ns, start_ns);
    bool is_up = (later - changes_ns.begin()) % 2 == 0;
    if (is_up) at(start_ns, [this, i] { server_goes(i, true); });
    for (auto change = later; change != changes_ns.end(); ++change) {
      is_up = !is_up;
      at(*change, [this, i, is_up] { server_goes(i, is_up); });
    }
  }
  at(start_ns, [this] { ask_for_host(); });
  at(start_ns, [this] {
    is_waiting_ = true;
    tell(PolicyEvent::Kind::kConsumerAsks);
  });
}

void PolicyWorld::run() {
  begin();
  const base::Status status = sim_.run(kEvents);
  if (!status.ok()) fail(status.message(), 0);
  if (!is_done()) fail("the run stopped before the end", policy_->position());
}

void PolicyWorld::fail(const std::string& what, StepNumber step) {
  if (problem_.empty()) problem_ = fmt::format("{}: step {} at {}", what, step, now());
}

void PolicyWorld::at(double time_ns, std::function<void()> event) {
  if (std::isinf(time_ns)) return;
  sim_.after(static_cast<int64_t>(std::max(std::ceil(time_ns - now()), 0.0)), std::move(event));
}

void PolicyWorld::tell(PolicyEvent::Kind kind, StepNumber step, uint32_t server) {
  if (is_done()) return;
  ++counts_.events;
  PolicyEvent event{.kind = kind, .now_ns = sim_.clock().now_ns(), .step = step, .server = server};
  if (kind == PolicyEvent::Kind::kServerUp) event.keeps = model_.servers[server].keeps;
  event.is_host_short = model_.is_host_short;
  const auto actions = policy_->step(event);
  for (const PolicyAction& action : actions) act(action);
  if (kind == PolicyEvent::Kind::kConsumerAsks && given_.size() % 16 == 0) check_position();
  const int64_t wake_ns = policy_->wake_ns();
  if (wake_ns != INT64_MAX && wake_ns != wake_ns_) {
    at(static_cast<double>(wake_ns), [this, wake_ns] {
      if (policy_->wake_ns() == wake_ns) tell(PolicyEvent::Kind::kTick);
    });
  }
  wake_ns_ = wake_ns;
  ask_for_host();
}

void PolicyWorld::act(const PolicyAction& action) {
  using Kind = PolicyAction::Kind;
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
      Server& server = servers_[action.server];
      ++counts_.messages;
      if (action.kind == Kind::kFetch) fetched_[action.step] = action.server;
      counts_.fetched_most = std::max(counts_.fetched_most, fetched_.size());
      // The step that the consumer waits for may come on top.
      if (fetched_.size() > 1 + std::max<size_t>(model_.options.here_max, 2 * servers_.size())) {
        fail("too many steps take memory", action.step);
      }
      if (!server.is_up) return fail("a server that is down was asked", action.step);
      if (action.step >= model_.options.end)
        fail("a step was asked for after the end", action.step);
      if (action.kind == Kind::kFetch && server.kept.contains(action.step)) {
        --asked_;
        server.kept.erase(action.step);
        return send(action.server, action.step);
      }
      server.orders.push_back({action.step, action.kind == Kind::kFetch});
      counts_.orders_most = std::max(counts_.orders_most, server.orders.size());
      return start_server(action.server);
    }
    case Kind::kForget:
      ++counts_.messages;
      ++counts_.forgotten;
      fetched_.erase(action.step);
      return forget(action.server, action.step);
    case Kind::kRescue:
      ++rescues_;
      host_.begin([this, step = action.step] { made_by_host(PolicyEvent::Kind::kRescued, step); });
      return;
    case Kind::kGive:
      return give(action.step);
  }
}

void PolicyWorld::check_position() {
  const std::vector<StepNumber> over = policy_->over();
  const bool all_given =
      std::all_of(over.begin(), over.end(), [&](StepNumber step) { return seen_.contains(step); });
  const bool fits = policy_->position() - model_.options.first + over.size() == seen_.size();
  if (!all_given || !fits) fail("position() or over() is wrong", policy_->position());
}

// --- the host: its step in progress and all rescues share its processors

void PolicyWorld::ask_for_host() {
  if (is_asking_) return;
  is_asking_ = true;
  while (of_host_.size() < model_.prefetch && host_queue_.size() < model_.begun_most &&
         host_next_ < end_ && !is_done()) {
    tell(PolicyEvent::Kind::kHostAsks, host_next_++);
  }
  is_asking_ = false;
}

void PolicyWorld::start_host() {
  host_.begin([this] {
    const StepNumber step = host_queue_.front();
    host_queue_.pop_front();
    if (!host_queue_.empty()) start_host();
    made_by_host(PolicyEvent::Kind::kHostMade, step);
  });
}

void PolicyWorld::made_by_host(PolicyEvent::Kind kind, StepNumber step) {
  here_.insert(step);
  tell(kind, step);
}

// --- prep servers

void PolicyWorld::server_goes(uint32_t number, bool is_up) {
  Server& server = servers_[number];
  server.is_up = is_up;
  if (server.task) server.processors->drop(*server.task);
  std::erase_if(fetched_, [&](const auto& fetched) {
    return fetched.second == number && !here_.contains(fetched.first);
  });
  server.orders.clear();
  server.kept.clear();
  server.task.reset();
  server.drops_work = false;
  server.sending.clear();
  ++server.line;
  tell(is_up ? PolicyEvent::Kind::kServerUp : PolicyEvent::Kind::kServerDown, 0, number);
}

void PolicyWorld::start_server(uint32_t number) {
  Server& server = servers_[number];
  if (server.task || server.orders.empty()) return;
  server.drops_work = false;
  server.task = server.processors->begin([this, number] { server_made(number); });
}

void PolicyWorld::server_made(uint32_t number) {
  Server& server = servers_[number];
  server.task.reset();
  const bool is_dropped = server.drops_work;
  server.drops_work = false;
  const Order order = is_dropped ? Order{} : server.orders.front();
  if (!is_dropped) server.orders.pop_front();
  start_server(number);
  if (is_dropped) return;
  ++counts_.messages;
  const double failing = model_.servers[number].failing;
  if (failing > 0 && sim_.random().uniform() < failing) {
    fetched_.erase(order.step);
    return tell(PolicyEvent::Kind::kServerFailed, order.step, number);
  }
  if (order.is_sent) return send(number, order.step);
  server.kept.insert(order.step);
  const uint32_t keeps = model_.servers[number].keeps;
  if (server.kept.size() > std::min(keeps, model_.options.kept_max))
    fail("a server keeps too much", order.step);
  tell(PolicyEvent::Kind::kServerKeeps, order.step, number);
}

void PolicyWorld::send(uint32_t number, StepNumber step) {
  servers_[number].sending.push_back(step);
  if (servers_[number].sending.size() == 1) start_line(number);
}

void PolicyWorld::start_line(uint32_t number) {
  Server& server = servers_[number];
  const uint64_t line = ++server.line;
  if (server.sending.empty()) return;
  const std::vector<double>& first = model_.servers[number].first_transfers_ns;
  const bool is_first = server.transfers < first.size();
  const double transfer_ns =
      is_first ? first[server.transfers] : model_.servers[number].transfer_ns;
  ++server.transfers;
  at(now() + transfer_ns, [this, number, line] {
    Server& sender = servers_[number];
    if (line != sender.line) return;
    const StepNumber step = sender.sending.front();
    sender.sending.pop_front();
    start_line(number);
    const double checked = model_.servers[number].checked;
    if (checked > 0 && sim_.random().uniform() < checked) {
      host_.begin([this, step] { made_by_host(PolicyEvent::Kind::kRescued, step); });
      return tell(PolicyEvent::Kind::kServerChecked, step, number);
    }
    here_.insert(step);
    tell(PolicyEvent::Kind::kServerGave, step, number);
  });
}

// A step in progress is finished, like by a decoder that cannot be stopped, but sending stops.
void PolicyWorld::forget(uint32_t number, StepNumber step) {
  Server& server = servers_[number];
  server.kept.erase(step);
  if (!server.sending.empty() && server.sending.front() == step) {
    server.sending.pop_front();
    start_line(number);
  }
  std::erase(server.sending, step);
  const auto found = std::find_if(server.orders.begin(), server.orders.end(),
                                  [&](const Order& order) { return order.step == step; });
  if (found == server.orders.end()) return;
  if (found == server.orders.begin() && server.task && !server.drops_work) server.drops_work = true;
  server.orders.erase(found);
}

// --- the consumer

void PolicyWorld::give(StepNumber step) {
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
      model_.options.policy == PolicyKind::kInterleave && !model_.options.any_order;
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
    tell(PolicyEvent::Kind::kConsumerAsks);
  });
}

}  // namespace forebay::prep
