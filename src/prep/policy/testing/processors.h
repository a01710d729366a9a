// The processors of a machine in a simulated world.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "prep/policy/testing/speed.h"
#include "sim/simulator.h"

namespace forebay::prep {

// Runs tasks of one step each, which share the processors equally, like busy processes share a
// machine's cores. Must live until the simulator has run.
class Processors {
 public:
  using Task = std::pair<double, uint64_t>;

  Processors(sim::Simulator& simulator, Speed speed) : sim_(simulator), speed_(std::move(speed)) {}
  Processors(const Processors&) = delete;
  Processors& operator=(const Processors&) = delete;

  // Begins a task, and calls `done` when its step is done.
  Task begin(std::function<void()> done);
  // Ends an unfinished task without a call.
  void drop(const Task& task);

  uint64_t finished() const { return finished_; }
  size_t tasks_most() const { return tasks_most_; }  // most tasks at once

 private:
  double now() const { return static_cast<double>(sim_.clock().now_ns()); }
  void advance();
  void schedule();
  void finish();

  sim::Simulator& sim_;
  const Speed speed_;
  // Ordered by the value that each_had_ will have when the task is done, then by a number.
  std::map<Task, std::function<void()>> tasks_;
  double each_had_ = 0;  // steps that a task running since the processors were last idle has done
  double advanced_ns_ = 0;
  uint64_t numbers_ = 0;
  uint64_t plan_ = 0;  // the number of the event that is valid; older ones do nothing
  uint64_t finished_ = 0;
  size_t tasks_most_ = 0;
};

}  // namespace forebay::prep
