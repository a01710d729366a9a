// The processors of a machine in a simulated world.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "prep/policy/testing/speed.h"
#include "sim/simulator.h"

namespace forebay::prep {

// Tasks of one step each, which share the processors equally, as the system shares cores among
// processes that are busy. Must live until the simulator has run.
class Processors {
 public:
  using Task = std::pair<double, uint64_t>;

  Processors(sim::Simulator& simulator, Speed speed) : sim_(simulator), speed_(std::move(speed)) {}
  Processors(const Processors&) = delete;
  Processors& operator=(const Processors&) = delete;

  // Calls `done` when the task has had its part of the processors for long enough.
  Task begin(std::function<void()> done);
  // The task, which is not done, ends without a call.
  void drop(const Task& task);

  uint64_t finished() const { return finished_; }
  size_t tasks_most() const { return tasks_most_; }  // that were in work at once

 private:
  double now() const { return static_cast<double>(sim_.clock().now_ns()); }
  void advance();
  void schedule();
  void finish();

  sim::Simulator& sim_;
  const Speed speed_;
  // By how many steps each task will have had when it is done, counted as those that a task has had
  // that was always in work; and by a number.
  std::map<Task, std::function<void()>> tasks_;
  double each_had_ = 0;
  double advanced_ns_ = 0;
  uint64_t numbers_ = 0;
  uint64_t plan_ = 0;  // numbers the next event
  uint64_t finished_ = 0;
  size_t tasks_most_ = 0;
};

}  // namespace forebay::prep
