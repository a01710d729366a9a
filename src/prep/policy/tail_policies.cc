#include "prep/policy/tail_policies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace forebay::prep {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// The host's rate is known well enough after this many of its steps, as in DDLP. Period itself
// discounts the slow first step.
constexpr uint64_t kMeasuredSteps = 20;

// A maker of steps: when it can begin the next one, and how long each takes.
struct Pace {
  double free_ns = 0;
  double step_ns = 0;
};

// When all makers together have prepared `steps`, as if steps could be divided.
double ready_ns(std::vector<Pace> paces, double steps) {
  std::sort(paces.begin(), paces.end(),
            [](const Pace& a, const Pace& b) { return a.free_ns < b.free_ns; });
  double rate = 0;
  double before = 0;  // minus the number of steps that would be ready at time 0
  double end_ns = kInfinite;
  for (const Pace& pace : paces) {
    if (pace.free_ns >= end_ns || std::isinf(pace.step_ns)) break;
    rate += 1 / pace.step_ns;
    before += pace.free_ns / pace.step_ns;
    end_ns = (steps + before) / rate;
  }
  return end_ns;
}

}  // namespace

TailPolicy::Tail& TailPolicy::tail(uint64_t number) {
  const StepNumber end = table().end_of(number);
  return tails_
      .try_emplace(number, Tail{.begin = table().begin_of(number), .next = end, .drained = end})
      .first->second;
}

void TailPolicy::plan() {
  tails_.erase(tails_.begin(), tails_.lower_bound(epoch()));
  if (is_mte()) {
    // The tail was fixed during the previous epoch, by the rates known then.
    if (std::exchange(refixed_epoch_, epoch()) != epoch()) tail(epoch()).is_fixed = false;
    fix(epoch());
    give_up_promises();
    give_up_kept();
  }
  // The server that is ready first takes the next step. A server that would delay the end of this
  // epoch begins with the next one.
  std::vector<uint32_t> order(servers().size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const double a_ns = server_free_ns(a) + server_step_ns(a);
    const double b_ns = server_free_ns(b) + server_step_ns(b);
    return std::tie(a_ns, a) < std::tie(b_ns, b);
  });
  for (bool any = true; any;) {
    any = false;
    for (const uint32_t server : order) any = ask_next(server) || any;
  }
  if (!is_mte()) return;
  send_ahead();
  // The host makes a promised step that the consumer waits for and no server has begun by now.
  const std::optional<StepNumber> next = next_of_tail();
  const bool is_needed = is_waiting() && next && !has_host_part();
  if (is_needed && table().at(*next).state == StepState::kPromised) break_promise(*next);
}

bool TailPolicy::may_ask_for_more(uint32_t number) const {
  if (!may_ask(number)) return false;
  if (!is_mte()) return has_room_here(number);
  const Server& server = servers()[number];
  return server.kept + server.queue.size() < server.kept_max;
}

bool TailPolicy::ask_next(uint32_t server) {
  if (!may_ask_for_more(server)) return false;
  for (const uint64_t one : {epoch(), epoch() + 1}) {
    if (table().begin_of(one) >= options().end) break;
    if (is_mte()) fix(one);
    // If draining a step takes as long as making it here, prep servers cannot help.
    if (is_mte() && !tail(one).is_fixed && drain_step_ns() >= host_step_ns()) continue;
    const std::optional<StepNumber> step = next_of(one);
    if (!step || delays_end(server, *step, tail(one))) continue;
    ask(server, *step, !is_mte());
    tail(one).next = *step;
    return true;
  }
  return false;
}

// The last step of an epoch's tail that no server was asked for.
std::optional<StepNumber> TailPolicy::next_of(uint64_t number) {
  Tail& part = tail(number);
  while (part.next > part.begin) {
    const StepNumber step = part.next - 1;
    if (is_free(step)) return step;
    // The servers have met the host: all earlier steps are the host's.
    if (!is_mte() && table().is_passed(step)) part.next = part.begin + 1;
    --part.next;
  }
  return {};
}

// Whether the other makers would have prepared all remaining steps before this server had prepared
// one of them.
bool TailPolicy::delays_end(uint32_t server, StepNumber step, const Tail& part) const {
  const bool with_host = !part.is_fixed;
  if (with_host && std::isinf(host_step_ns())) return false;
  const StepNumber begin = with_host ? std::max(part.begin, table().host_next()) : part.begin;
  const StepNumber left = step + 1 - std::min(begin, step);
  const double consumed_ns =
      consumer_ns() + consumer_step_ns() * static_cast<double>(left + host_queue().size());
  return server_free_ns(server) + server_step_ns(server) >
         std::max(others_ready_ns(server, with_host, left), with_host ? consumed_ns : 0.0);
}

double TailPolicy::others_ready_ns(uint32_t server, bool with_host, StepNumber steps) const {
  std::vector<Pace> paces;
  if (with_host) paces.push_back({host_free_ns(), host_step_ns()});
  for (uint32_t i = 0; i < servers().size(); ++i) {
    // A server that can keep no more steps may not make any for long.
    const bool is_full = is_mte() && servers()[i].kept >= servers()[i].kept_max;
    if (i != server && servers()[i].is_up && !is_full)
      paces.push_back({server_free_ns(i), server_step_ns(i)});
  }
  return ready_ns(std::move(paces), static_cast<double>(steps));
}

bool TailPolicy::host_shall_make(StepNumber step) {
  const Entry& entry = table().at(step);
  if (!is_mte()) return entry.state == StepState::kNobody || is_too_late(step, 0);
  if (entry.state != StepState::kNobody) return false;
  const Tail& part = tail(table().epoch_of(step));
  const bool is_promised = part.is_fixed && is_server_up() && step >= part.begin &&
                           step < part.next && !entry.is_for_host && !is_behind(part);
  if (is_promised) promise(step);
  return !is_promised;
}

// The time for a step while the consumer drains the tail; in DDLP s = r + g, with r for sending and
// g for the consumer. Here steps are sent ahead, so that sending and the consumer's work overlap: s
// = max(r, g). Of several servers, the one whose part takes longest to send decides. The host's
// work slows sending down before the tail is drained, so the least of the last times is taken for
// the time of draining.
double TailPolicy::drain_step_ns() const {
  double drain_ns = consumer_step_ns();
  for (const Server& server : servers()) {
    const Period& step = server.period.step();
    if (!server.is_up || !step.is_sure()) continue;
    const double share = servers_step_ns() / step.ns();
    drain_ns = std::max(drain_ns, share * server.transfer.step().least_ns());
  }
  return drain_ns;
}

// The time in which all servers together make one step.
double TailPolicy::servers_step_ns() const {
  double rate = 0;
  for (const Server& server : servers()) {
    if (server.is_up && server.period.step().is_sure()) rate += 1 / server.period.step().ns();
  }
  return rate > 0 ? 1 / rate : kInfinite;
}

// How many steps the servers could make in the time that they need to finish their queues.
double TailPolicy::servers_begun_steps() const {
  double steps = 0;
  for (uint32_t i = 0; i < servers().size(); ++i) {
    const Period& step = servers()[i].period.step();
    if (servers()[i].is_up && step.is_sure()) steps += (server_free_ns(i) - now()) / step.ns();
  }
  return steps;
}

// Decides how many of the `left` remaining steps the servers make: x. The host finishes its queue,
// in h, and makes the other steps, in (left - x) a. Then the consumer takes the `kept` steps that
// the servers had before, and the x steps, in (kept + x) s. The servers finish their queues, in f,
// and make the x steps, in x b. Servers and consumer are to be ready at the same time:
//
//   x = (h + left a + kept s - f) / (a + b - s)      where all but left = N are 0 at first
//
// The x steps must also fit: when the host is done, the servers keep at most K steps. While these
// and further n - K steps are drained, in n s, the servers make the n - K. So n <= K / (1 - s / b).
void TailPolicy::fix(uint64_t number) {
  Tail& part = tail(number);
  const double a = std::max(host_step_ns(), consumer_step_ns());
  const double b = servers_step_ns();
  const double s = drain_step_ns();
  if (part.is_fixed || host().steps < kMeasuredSteps || std::isinf(a) || std::isinf(b)) return;
  part.is_fixed = true;
  double left = 0;
  double kept = 0;
  StepNumber lowest_promised = part.next;
  const StepNumber end = table().end_of(number);
  for (StepNumber step = std::max(table().begin_of(number), table().position()); step < end;
       ++step) {
    const Entry& entry = table().at(step);
    if (step < part.next && is_free(step)) ++left;
    if (step < part.next && entry.state == StepState::kPromised) {
      lowest_promised = std::min(lowest_promised, step);
    }
    const bool is_claimed = entry.state == StepState::kServer || entry.state == StepState::kKept ||
                            entry.state == StepState::kSent || entry.state == StepState::kHere;
    if (is_claimed && entry.maker == Maker::kServer) ++kept;
  }
  double room = options().here_max;
  for (const Server& server : servers()) room += server.is_up ? server.kept_max : 0;
  const double begun_ns = host_free_ns() - now() - b * servers_begun_steps();
  double x = a > s ? (left * a + kept * s + begun_ns) / (a + b - s) : 0;
  if (s < b) x = std::min(x, room / (1 - s / b) - kept);
  x = std::floor(std::clamp(x, 0.0, left));
  part.begin = part.next;
  while (x > 0 && part.begin > table().begin_of(number)) {
    --part.begin;
    if (is_free(part.begin)) --x;
  }
  part.begin = std::min(part.begin, lowest_promised);
}

// Whether the servers will be late with their part, by more than rounding and steps in progress
// explain.
bool TailPolicy::is_behind(const Tail& part) const {
  double open = static_cast<double>(part.next - std::min(part.begin, part.next));
  double drained = open;
  std::vector<Pace> paces;
  double rate = 0;
  for (uint32_t i = 0; i < servers().size(); ++i) {
    const Server& server = servers()[i];
    drained += static_cast<double>(server.kept + server.here + server.queue.size() +
                                   server.sending.size());
    if (!server.is_up) continue;
    paces.push_back({server_free_ns(i), server_step_ns(i)});
    rate += 1 / server_step_ns(i);
  }
  const double ready = ready_ns(std::move(paces), open);
  const double needed = std::max(host_free_ns(), consumer_ns()) + drained * consumer_step_ns();
  return !(ready <= needed + 2 / rate + rescue_ns());
}

// Lets the host make a promised step if it has no other step of the epoch left and the servers are
// behind.
void TailPolicy::give_up_promises() {
  Tail& part = tail(epoch());
  if (!part.is_fixed || table().host_next() < table().end_of(epoch())) return;
  const std::optional<StepNumber> step = next_of(epoch());
  if (!step || table().at(*step).state != StepState::kPromised) return;
  if (may_rescue_ahead() && is_behind(part)) break_promise(*step);
}

// Lets the host make a kept step again if sending it would take longer.
void TailPolicy::give_up_kept() {
  if (has_host_part() || !may_rescue_ahead()) return;
  const Tail& part = tail(epoch());
  uint32_t before = 0;
  for (StepNumber step = part.drained; step > std::max(part.next, table().position()); --step) {
    const Entry& entry = table().at(step - 1);
    if (entry.state == StepState::kSent || entry.state == StepState::kHere) ++before;
    if (entry.state != StepState::kKept) continue;
    const auto sent = static_cast<double>(servers()[entry.server].sending.size() + 1);
    const double sent_ns = now() + sent * servers()[entry.server].transfer.step().least_ns();
    const double needed_ns = consumer_ns() + before * consumer_step_ns();
    if (sent_ns > std::max(needed_ns, now() + rescue_ns())) take_back(step - 1);
    return;
  }
}

void TailPolicy::on_servers_changed() {
  for (auto& [number, part] : tails_) {
    part.is_fixed = false;
    if (is_server_up()) continue;
    const StepNumber end = std::min(part.next, table().host_next());
    for (StepNumber step = std::max(part.begin, table().position()); step < end; ++step) {
      if (table().at(step).state == StepState::kPromised) break_promise(step);
    }
  }
}

// The last step that was not given: the tail is consumed in the order in which it is made.
std::optional<StepNumber> TailPolicy::next_of_tail() {
  Tail& part = tail(epoch());
  const StepNumber begin = std::max(table().begin_of(epoch()), table().position());
  while (part.drained > begin && table().is_given(part.drained - 1)) --part.drained;
  return part.drained > begin ? std::optional(part.drained - 1) : std::nullopt;
}

std::optional<StepNumber> TailPolicy::next_to_give() {
  std::optional<StepNumber> of_host;     // the host's first step
  std::optional<StepNumber> of_servers;  // the servers' last step, because they begin at the end
  for (const StepNumber step : table().here()) {
    if (table().epoch_of(step) != epoch()) break;
    if (table().at(step).maker != Maker::kHost) {
      of_servers = step;
    } else if (!of_host) {
      of_host = step;
    }
  }
  if (!is_mte()) return of_servers ? of_servers : of_host;
  if (of_host || has_host_part()) return of_host;
  const std::optional<StepNumber> next = next_of_tail();
  return next && table().at(*next).state == StepState::kHere ? next : std::nullopt;
}

std::optional<StepPolicy::Needed> TailPolicy::waits_for() {
  if (!is_mte()) return last_of_servers();
  if (!is_waiting() || has_host_part()) return {};
  const std::optional<StepNumber> next = next_of_tail();
  if (!next) return {};
  const StepState state = table().at(*next).state;
  const bool is_coming = state == StepState::kServer || state == StepState::kSent;
  return is_coming ? std::optional<Needed>({*next, now()}) : std::nullopt;
}

bool TailPolicy::is_needed_now(StepNumber lost) {
  if (has_host_part()) return false;
  return is_mte() ? next_of_tail() == lost : table().epoch_of(lost) == epoch();
}

StepNumber TailPolicy::first_needed(const std::set<StepNumber>& lost) const {
  if (!is_mte()) return *lost.begin();
  const StepNumber end = table().end_of(table().epoch_of(*lost.begin()));
  return *std::prev(lost.lower_bound(end));
}

// Fetches the kept steps that the consumer drains next, in that order, as far as there is room.
void TailPolicy::send_ahead() {
  const std::optional<StepNumber> next = next_of_tail();
  for (const uint64_t one : {epoch(), epoch() + 1}) {
    const Tail& part = tail(one);
    for (StepNumber step = part.drained; step > std::max(part.next, table().position());) {
      --step;
      const Entry& entry = table().at(step);
      if (entry.state == StepState::kServer) return;
      if (entry.state != StepState::kKept) continue;
      if (!has_room_here(entry.server) && step != next) return;
      send(step);
    }
    if (part.next > part.begin) return;
  }
}

}  // namespace forebay::prep
