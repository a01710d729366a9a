#include "prep/policy/interleave.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace forebay::prep {

namespace {

// How many steps a plan looks ahead. A server that is slower than the others by so much is useless.
constexpr StepNumber kPlannedSteps = 4096;
// How long before its turn a server's step is planned to be ready, in the server's periods. This
// only costs memory, for that much longer.
constexpr double kMarginPeriods = 0.75;
// How many steps the host may promise to servers, for each step that has room here. If the servers
// go down, the host makes the promised steps one by one when their turn comes.
constexpr StepNumber kPromisedEach = 4;

}  // namespace

bool Interleave::host_shall_make(StepNumber step) {
  if (table().at(step).state == StepState::kNobody) {
    const bool is_for_servers = is_host_short() && have_servers_in_time(step);
    if (is_for_servers) promise(step);
    return !is_for_servers;
  }
  const double before = static_cast<double>(step - table().position());
  return is_too_late(step, consumer_ns() + before * consumer_step_ns());
}

std::optional<StepNumber> Interleave::next_to_give() {
  const std::set<StepNumber>& here = table().here();
  if (here.empty()) return {};
  const StepNumber first = *here.begin();
  const bool has_turn =
      options().any_order ? table().epoch_of(first) == epoch() : first == table().position();
  return has_turn ? std::optional(first) : std::nullopt;
}

std::optional<StepPolicy::Needed> Interleave::waits_for() {
  if (options().any_order) return last_of_servers();
  double consumer = consumer_ns();
  StepNumber step = table().position();
  for (;; ++step) {
    const StepState state = table().at(step).state;
    if (state == StepState::kServer) return Needed{step, consumer};
    if (state == StepState::kNobody) return {};
    if (state != StepState::kGiven) {
      consumer = std::max(consumer, arrival_ns(step)) + consumer_step_ns();
    }
  }
}

bool Interleave::is_needed_now(StepNumber lost) {
  return options().any_order ? table().epoch_of(lost) == epoch() && !has_host_part()
                             : lost == table().position();
}

bool Interleave::may_fetch(uint32_t server) const {
  return may_ask(server) && has_room_here(server);
}

// Whether the servers alone can make all steps up to this one that nobody has begun, this one
// before the consumer needs it.
bool Interleave::have_servers_in_time(StepNumber step) const {
  if (options().any_order || !is_free(step)) return false;
  if (step >= table().position() + kPromisedEach * options().here_max) return false;
  std::vector<Planned> able;
  for (uint32_t i = 0; i < servers().size(); ++i) {
    const bool is_able = servers()[i].is_up && servers()[i].period.step().is_sure();
    if (is_able) able.push_back(planned(i));
  }
  if (able.empty() || std::isinf(host_step_ns())) return false;
  double consumer = consumer_ns();
  for (StepNumber before = table().position();; ++before) {
    const StepState state = table().at(before).state;
    if (state == StepState::kGiven) continue;
    double ready_ns = 0;
    if (is_free(before)) {
      Planned& soonest = *std::ranges::min_element(able, {}, &Planned::surely_ns);
      if (before == step) return soonest.surely_ns() <= consumer;
      ready_ns = soonest.free_ns = soonest.ready_ns();
    } else {
      ready_ns = state == StepState::kNobody ? now() + rescue_ns() : arrival_ns(before);
    }
    consumer = std::max(consumer, ready_ns) + consumer_step_ns();
  }
}

// When the last server goes down, its promised steps go back to the host.
void Interleave::on_servers_changed() {
  if (is_server_up()) return;
  for (StepNumber step = table().position(); step < table().host_next(); ++step) {
    if (table().at(step).state == StepState::kPromised) break_promise(step);
  }
}

Interleave::Planned Interleave::planned(uint32_t server) const {
  // Twice the average lateness of the server's steps covers most of them. The rest allows for a
  // host that becomes faster, so that the step's turn comes sooner.
  return {.free_ns = server_free_ns(server),
          .step_ns = server_step_ns(server),
          .margin_ns = 2 * servers()[server].late_ns + kMarginPeriods * server_step_ns(server),
          .may_ask = may_fetch(server)};
}

Interleave::Course Interleave::begin() const {
  Course course{.step = table().position(),
                .host_ns = host_free_ns(),
                .consumer_ns = consumer_ns(),
                .open_ns = {},
                .servers = std::vector<Planned>(servers().size()),
                .soonest = {},
                .asking_ns = {}};
  for (uint32_t i = 0; i < servers().size(); ++i) course.servers[i] = planned(i);
  see_asking(course);
  if (!course.asking_ns) return course;
  for (uint32_t i = 0; i < servers().size(); ++i) {
    if (servers()[i].is_up) course.soonest.emplace_back(course.servers[i].surely_ns(), i);
  }
  std::ranges::make_heap(course.soonest, std::greater<>());
  return course;
}

void Interleave::see_asking(Course& course) {
  course.asking_ns.reset();
  for (const Planned& server : course.servers) {
    if (!server.may_ask) continue;
    course.asking_ns = std::max(course.asking_ns.value_or(0), server.surely_ns() + server.step_ns);
  }
}

// Whether a server could still be asked for a step that it should begin now. A step that is needed
// more than one period after the server would have it ready can be asked for later, when more is
// known.
bool Interleave::goes_on(const Course& course) const {
  if (course.step - table().position() > kPlannedSteps || !course.asking_ns) return false;
  if (course.step >= options().end) return false;
  // No server can be asked for a step before the first open one.
  const double open_ns = course.open_ns.value_or(course.consumer_ns);
  return course.consumer_ns <= std::max(open_ns, *course.asking_ns);
}

// Plans who makes the course's step, which nobody has, and asks a server that should begin it now.
// Returns when the step will be ready. The host makes each step that it can make in time; other
// steps go to whoever has them ready first. If the host's work slows the consumer down, a server
// makes each step that it can make in time.
double Interleave::plan_open_step(Course& course) {
  const double host_ns = course.host_ns + host_step_ns();
  const bool is_needed = host_ns > course.consumer_ns || is_host_short();
  const double latest_ns = is_host_short() ? std::max(host_ns, course.consumer_ns) : host_ns;
  const bool is_for_server = !course.soonest.empty() && is_free(course.step) && is_needed &&
                             course.soonest.front().first <= latest_ns;
  if (is_for_server) return plan_server(course, course.soonest.front().second);
  course.host_ns = host_ns;
  return host_ns;
}

// Plans that this server, the soonest one, makes the course's step, and asks it if it may be asked.
// Returns when the step will be ready.
double Interleave::plan_server(Course& course, uint32_t number) {
  Planned& server = course.servers[number];
  const bool is_asked = server.may_ask;
  if (is_asked) ask(number, course.step, true);
  server.free_ns = server.ready_ns();
  std::ranges::pop_heap(course.soonest, std::greater<>());
  course.soonest.back().first = server.surely_ns();
  std::ranges::push_heap(course.soonest, std::greater<>());
  if (!is_asked) return server.free_ns;
  // The step takes room, which may be missing for the others.
  for (uint32_t i = 0; i < servers().size(); ++i) {
    course.servers[i].may_ask = course.servers[i].may_ask && may_fetch(i);
  }
  see_asking(course);
  return server.free_ns;
}

void Interleave::plan() {
  Course course = begin();
  if (std::isinf(host_step_ns())) return;
  for (; goes_on(course); ++course.step) {
    const StepState state = table().at(course.step).state;
    if (state == StepState::kGiven) continue;
    double ready_ns = 0;
    const bool is_open = state == StepState::kNobody && !table().is_passed(course.step);
    if (is_open || state == StepState::kPromised) {
      if (!course.open_ns) course.open_ns = course.consumer_ns;
      ready_ns = is_open ? plan_open_step(course)
                         : plan_server(course, course.soonest.front().second);  // some server is up
    } else if (state == StepState::kNobody) {
      ready_ns = now() + rescue_ns();
    } else {
      ready_ns = arrival_ns(course.step);
    }
    course.consumer_ns = std::max(course.consumer_ns, ready_ns) + consumer_step_ns();
  }
  // The consumer waits for a promised step, and no server could be asked for it.
  const StepNumber next = table().position();
  if (is_waiting() && table().at(next).state == StepState::kPromised) break_promise(next);
}

}  // namespace forebay::prep
