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
// How many steps the host may leave to sides that will be asked for them later, for each step that
// has room here. If the sides go, it makes these one by one, when their turn comes.
constexpr StepNumber kPromisedEach = 4;

}  // namespace

bool Interleave::host_shall_make(StepNumber step) {
  if (ledger().at(step).place == Place::kNobody) {
    const bool is_for_sides = is_host_short() && have_sides_in_time(step);
    if (is_for_sides) promise(step);
    return !is_for_sides;
  }
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

// Whether the sides alone can make the step before the consumer needs it, after all before it that
// are not begun.
bool Interleave::have_sides_in_time(StepNumber step) const {
  if (options().any_order || !is_free(step)) return false;
  if (step >= ledger().position() + kPromisedEach * options().here_max) return false;
  std::vector<Planned> able;
  for (uint32_t i = 0; i < sides().size(); ++i) {
    const bool is_able = sides()[i].is_up && sides()[i].period.step().is_sure();
    if (is_able) able.push_back(planned(i));
  }
  if (able.empty() || std::isinf(host_step_ns())) return false;
  double consumer = consumer_ns();
  for (StepNumber before = ledger().position();; ++before) {
    const Place place = ledger().at(before).place;
    if (place == Place::kGiven) continue;
    double ready_ns = 0;
    if (is_free(before)) {
      Planned& soonest = *std::ranges::min_element(able, {}, &Planned::surely_ns);
      if (before == step) return soonest.surely_ns() <= consumer;
      ready_ns = soonest.free_ns = soonest.ready_ns();
    } else {
      ready_ns = place == Place::kNobody ? now() + rescue_ns() : arrival_ns(before);
    }
    consumer = std::max(consumer, ready_ns) + consumer_step_ns();
  }
}

// Without sides nobody keeps what they were promised.
void Interleave::on_sides_changed() {
  if (is_side_up()) return;
  for (StepNumber step = ledger().position(); step < ledger().host_next(); ++step) {
    if (ledger().at(step).place == Place::kPromised) break_promise(step);
  }
}

Interleave::Planned Interleave::planned(uint32_t side) const {
  // Twice the average by which its steps are late covers most of them. The rest is for the host,
  // which may become faster: then the step's turn comes sooner.
  return {.free_ns = side_free_ns(side),
          .step_ns = side_step_ns(side),
          .margin_ns = 2 * sides()[side].late_ns + kMarginPeriods * side_step_ns(side),
          .may_ask = may_fetch(side)};
}

Interleave::Course Interleave::begin() const {
  Course course{.step = ledger().position(),
                .host_ns = host_free_ns(),
                .consumer_ns = consumer_ns(),
                .open_ns = {},
                .sides = std::vector<Planned>(sides().size()),
                .soonest = {},
                .asking_ns = {}};
  for (uint32_t i = 0; i < sides().size(); ++i) course.sides[i] = planned(i);
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
    const bool is_open = place == Place::kNobody && !ledger().is_passed(course.step);
    if (is_open || place == Place::kPromised) {
      if (!course.open_ns) course.open_ns = course.consumer_ns;
      ready_ns = is_open ? plan_open_step(course)
                         : plan_side(course, course.soonest.front().second);  // some side is up
    } else if (place == Place::kNobody) {
      ready_ns = now() + rescue_ns();
    } else {
      ready_ns = arrival_ns(course.step);
    }
    course.consumer_ns = std::max(course.consumer_ns, ready_ns) + consumer_step_ns();
  }
  // The consumer needs it now, and no side could be asked for it.
  const StepNumber next = ledger().position();
  if (is_waiting() && ledger().at(next).place == Place::kPromised) break_promise(next);
}

}  // namespace forebay::plan
