#include "plan/interleave.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace forebay::plan {

namespace {

// How far a plan looks. A side that is so much slower than all others is of no use.
constexpr StepNumber kPlannedSteps = 4096;
// How much too early a side's step is planned to be, in its periods. It costs memory for so much
// longer, and nothing else.
constexpr double kMarginPeriods = 0.75;

}  // namespace

bool Interleave::host_shall_make(StepNumber step) {
  if (ledger().at(step).place == Place::kNobody) return true;
  const double before = static_cast<double>(step - ledger().position());
  return is_too_late(step, consumer_ns() + before * consumer_step_ns());
}

std::optional<StepNumber> Interleave::next_to_give() {
  const std::set<StepNumber>& here = ledger().here();
  if (here.empty()) return {};
  const StepNumber first = *here.begin();
  const bool has_turn =
      options().any_order ? ledger().epoch_of(first) == epoch() : first == ledger().position();
  return has_turn ? std::optional(first) : std::nullopt;
}

std::optional<Engine::Needed> Interleave::waits_for() {
  if (options().any_order) return last_of_sides();
  double consumer = consumer_ns();
  StepNumber step = ledger().position();
  for (;; ++step) {
    const Place place = ledger().at(step).place;
    if (place == Place::kSide) return Needed{step, consumer};
    if (place == Place::kNobody) return {};
    if (place != Place::kGiven) {
      consumer = std::max(consumer, arrival_ns(step)) + consumer_step_ns();
    }
  }
}

bool Interleave::is_needed_now(StepNumber lost) {
  return options().any_order ? ledger().epoch_of(lost) == epoch() && !has_host_part()
                             : lost == ledger().position();
}

bool Interleave::may_fetch(uint32_t side) const { return may_ask(side) && has_room_here(side); }

Interleave::Course Interleave::begin() const {
  Course course{.step = ledger().position(),
                .host_ns = host_free_ns(),
                .consumer_ns = consumer_ns(),
                .open_ns = {},
                .sides = std::vector<Planned>(sides().size()),
                .soonest = {},
                .asking_ns = {}};
  for (uint32_t i = 0; i < sides().size(); ++i) {
    // Twice the average by which its steps are late covers most of them. The rest is for the host,
    // which may become faster: then the step's turn comes sooner.
    course.sides[i] = {.free_ns = side_free_ns(i),
                       .step_ns = side_step_ns(i),
                       .margin_ns = 2 * sides()[i].late_ns + kMarginPeriods * side_step_ns(i),
                       .may_ask = may_fetch(i)};
  }
  see_asking(course);
  if (!course.asking_ns) return course;
  for (uint32_t i = 0; i < sides().size(); ++i) {
    if (sides()[i].is_up) course.soonest.emplace_back(course.sides[i].surely_ns(), i);
  }
  std::ranges::make_heap(course.soonest, std::greater<>());
  return course;
}

void Interleave::see_asking(Course& course) {
  course.asking_ns.reset();
  for (const Planned& side : course.sides) {
    if (!side.may_ask) continue;
    course.asking_ns = std::max(course.asking_ns.value_or(0), side.surely_ns() + side.step_ns);
  }
}

// Whether a side could still be asked for something that it should begin now. What is needed more
// than one of its periods after it would be ready can be asked for later, when more is known.
bool Interleave::goes_on(const Course& course) const {
  if (course.step - ledger().position() > kPlannedSteps || !course.asking_ns) return false;
  if (course.step >= options().end) return false;
  // Before the host's steps in work no step can be asked for.
  const double open_ns = course.open_ns.value_or(course.consumer_ns);
  return course.consumer_ns <= std::max(open_ns, *course.asking_ns);
}

// Plans who makes the course's step, which nobody has, and asks a side if that is to begin now.
// Returns when it is ready. The host makes what it can make in time; what a side has earlier
// otherwise, that side makes. Where the consumer misses what the host's work takes, a side makes
// whatever it can make in time.
double Interleave::plan_open_step(Course& course) {
  const double host_ns = course.host_ns + host_step_ns();
  const bool is_needed = host_ns > course.consumer_ns || is_host_short();
  const double latest_ns = is_host_short() ? std::max(host_ns, course.consumer_ns) : host_ns;
  const bool is_for_side = !course.soonest.empty() && is_free(course.step) && is_needed &&
                           course.soonest.front().first <= latest_ns;
  if (is_for_side) return plan_side(course, course.soonest.front().second);
  course.host_ns = host_ns;
  return host_ns;
}

// Plans that the soonest side makes the course's step.
double Interleave::plan_side(Course& course, uint32_t number) {
  Planned& side = course.sides[number];
  const bool is_asked = side.may_ask;
  if (is_asked) ask(number, course.step, true);
  side.free_ns = side.ready_ns();
  std::ranges::pop_heap(course.soonest, std::greater<>());
  course.soonest.back().first = side.surely_ns();
  std::ranges::push_heap(course.soonest, std::greater<>());
  if (!is_asked) return side.free_ns;
  // It takes room, which the others may miss.
  for (uint32_t i = 0; i < sides().size(); ++i) {
    course.sides[i].may_ask = course.sides[i].may_ask && may_fetch(i);
  }
  see_asking(course);
  return side.free_ns;
}

void Interleave::plan() {
  Course course = begin();
  if (std::isinf(host_step_ns())) return;
  for (; goes_on(course); ++course.step) {
    const Place place = ledger().at(course.step).place;
    if (place == Place::kGiven) continue;
    double ready_ns = 0;
    if (place == Place::kNobody && !ledger().is_passed(course.step)) {
      if (!course.open_ns) course.open_ns = course.consumer_ns;
      ready_ns = plan_open_step(course);
    } else if (place == Place::kNobody) {
      ready_ns = now() + rescue_ns();
    } else {
      ready_ns = arrival_ns(course.step);
    }
    course.consumer_ns = std::max(course.consumer_ns, ready_ns) + consumer_step_ns();
  }
}

}  // namespace forebay::plan
