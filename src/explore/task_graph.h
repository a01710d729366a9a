// The stages of a flow as tasks: which results somebody still needs, where results lie, and which
// tasks can run now. It decides nothing (see engine.h). A value, copied freely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace forebay::explore {

using Task = uint32_t;

enum class Order : uint8_t {
  kDepth,     // in the order of add(): the first branch is finished before the second begins
  kBreadth,   // stage after stage: tasks that read the same result follow each other
  kCritical,  // the longest rest of a branch first
};

struct TaskOptions {
  std::vector<Task> inputs = {};  // the tasks whose results it reads; they were added before
  uint32_t kind = 0;              // tasks of one kind are expected to cost the same
  // A result of an earlier run, if is_done: where it lies, and what it took.
  bool is_done = false;
  bool on_disk = false;
  uint64_t bytes = 0;
  double seconds = 0;
};

class TaskGraph {
 public:
  struct Node {
    TaskOptions options;
    std::vector<Task> consumers;
    uint32_t level = 0;      // the longest chain of inputs
    uint32_t holds = 0;      // reasons to run the task once, and to keep the result
    uint32_t keeps = 0;      // reasons to keep the result once it is made
    uint32_t reads = 0;      // tasks that will run and read the result, and others who wait for it
    uint32_t pins = 0;       // running tasks that read the result
    uint32_t missing = 0;    // inputs whose results do not exist
    uint32_t runs = 0;       // how often it was finished
    uint64_t used = 0;       // when the result was last used, on a counter
    double rest_s = 0;       // with Order::kCritical: this task and the longest chain after it
    bool is_needed = false;  // it must run
    bool is_running = false;
    bool is_done = false;
    bool has_failed = false;
    bool in_memory = false;
    bool on_disk = false;

    bool exists() const { return in_memory || on_disk; }
    bool is_dead() const { return holds + keeps + reads + pins == 0; }
    uint64_t bytes() const { return options.bytes; }
  };

  Task add(TaskOptions options);
  // Adds to or takes from the task's `holds`, `keeps` or `reads` (see Node).
  void hold(Task task, int change);
  void keep(Task task, int change);
  void read(Task task, int change);

  void set_order(Order order);
  // Returns the next task to run and marks it and its inputs; kNone if no task can run.
  static constexpr Task kNone = UINT32_MAX;
  Task begin_next();
  // The task ended, or was interrupted.
  void end(Task task);
  // Says where the result of a task is from now on.
  void place(Task task, bool in_memory, bool on_disk);
  void finished(Task task, double seconds, uint64_t bytes);
  // The task and all that read its result can never be done. Returns them.
  std::vector<Task> fail(Task task);

  const Node& node(Task task) const { return nodes_[task]; }
  size_t size() const { return nodes_.size(); }
  const std::set<Task>& in_memory() const { return in_memory_; }
  const std::set<Task>& on_disk() const { return on_disk_; }
  const std::set<Task>& running() const { return running_; }
  void touch(Task task) { nodes_[task].used = ++clock_; }

  // What a task of this kind is expected to take; before the first one has finished, 1 s and 1 MB.
  struct Cost {
    double seconds = 1;
    double bytes = 1e6;
    uint64_t count = 0;
  };
  Cost expected(Task task) const;

 private:
  struct Turn {
    double key = 0;
    Task task = 0;
    auto operator<=>(const Turn&) const = default;
  };
  void learn(const TaskOptions& options);
  void refresh(Task task);
  void update_ready(Task task);
  Turn turn_of(Task task) const;
  void measure_rests();

  std::vector<Node> nodes_;
  std::vector<Cost> costs_;  // by kind, means
  std::set<Turn> ready_;
  std::vector<Turn> turns_;  // by task: its entry in ready_
  std::vector<bool> is_ready_;
  std::set<Task> in_memory_;
  std::set<Task> on_disk_;
  std::set<Task> running_;
  Order order_ = Order::kDepth;
  bool rests_are_old_ = false;
  uint64_t clock_ = 0;
};

}  // namespace forebay::explore
