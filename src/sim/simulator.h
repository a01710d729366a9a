// Runs state machines in one thread under a seed: what happens, and when, is drawn from the seed,
// and time is virtual. A test that fails prints its seed, and the same seed fails again in the same
// way. Only tests and benchmarks may use it.
#pragma once

#include <functional>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "io/clock.h"

namespace forebay::sim {

// One thread calls everything. Events are what a driver would receive from outside: a message, a
// finished read, a timer. An event's function steps its machine and gives the resulting actions
// back to the simulator as further events.
class Simulator {
 public:
  explicit Simulator(uint64_t seed);

  // Calls `event` after `delay_ns`, at least 0, of virtual time. Events of the same moment happen
  // in a drawn order.
  void after(int64_t delay_ns, std::function<void()> event);
  // Like after(), with a delay drawn from [0, delay_ns_max].
  void within(int64_t delay_ns_max, std::function<void()> event);
  // Runs events until none is left. Returns kTooBig after `events_max` events, because then the
  // machines probably create work forever.
  base::Status run(uint64_t events_max);

  // Tests draw their own choices from these random numbers.
  base::Random& random() { return random_; }
  // The virtual time. A single thread cannot wait for it: wait_until() ends the program.
  const io::Clock& clock() const { return clock_; }

 private:
  struct Event {
    int64_t at_ns = 0;
    uint64_t tie = 0;     // random; orders events of the same moment
    uint64_t number = 0;  // orders events with equal ties
    std::function<void()> run;
  };
  class Clock final : public io::Clock {
   public:
    int64_t now_ns() const override { return now; }
    bool wait_until(base::Mutex& mutex, base::CondVar& condition,
                    int64_t deadline_ns) const override;
    int64_t now = 0;
  };
  static bool is_later(const Event& a, const Event& b);

  base::Random random_;
  Clock clock_;
  uint64_t events_ = 0;
  std::vector<Event> heap_;  // the next event is the first element
};

// Runs `body` with a new simulator under each of `count` seeds, which are 0, 1, 2, …, and names the
// seed in every failure; stops at the first seed that fails. The environment can ask for twenty
// times as many (FOREBAY_TEST_ALL=1) or for a single seed (FOREBAY_SIM_SEED=17).
void for_each_seed(uint64_t count, const std::function<void(Simulator&)>& body);

}  // namespace forebay::sim
