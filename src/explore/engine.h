// Runs a flow: which task runs next on which worker, which results stay in memory, which branches a
// choose drops, and which need not run at all. Plain logic without threads, processes, files and
// clocks: it is told what happened and answers what to do. python/forebay/explore carries it out,
// and forecast.h simulates it. docs/explore.md says what users see.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "explore/early_stop.h"
#include "explore/score_shape.h"
#include "explore/selector.h"
#include "explore/task_graph.h"

namespace forebay::explore {

using Choice = uint32_t;
using Worker = uint32_t;

// Which result leaves memory first when memory is full.
enum class Eviction : uint8_t {
  // Anticipatory memory management (meta-dataflows): the result with the smallest remaining
  // accesses x min(time to load it, time to compute it) / size.
  kAnticipatory,
  kLeastRecentlyUsed,
};

struct EngineOptions {
  uint32_t workers = 1;
  uint64_t memory_bytes = UINT64_MAX;  // all results in memory together
  uint64_t disk_bytes = UINT64_MAX;    // all results on disk together
  Eviction eviction = Eviction::kAnticipatory;
  double disk_bytes_per_s = 500e6;  // until it is measured
};

struct ChoiceOptions {
  SelectorOptions selector;
  Shape shape = Shape::kNone;  // along the lines of its branches
  EarlyStopOptions early_stop = {};
};

struct Branch {
  Task result = 0;        // what is kept if the branch is chosen
  Task judge = 0;         // the task whose end gives the score; may be `result`
  uint32_t line = 0;      // branches that differ only in the ordered explore
  uint32_t position = 0;  // on this line
};

struct Event {
  enum class Kind : uint8_t {
    kMade,  // `worker` has the result of `task`, of `bytes`, after `seconds`; answered by kPlace
    kFinished,    // the result of `task` lies where kPlace said
    kFailed,      // `task` can never be done
    kStopped,     // `worker` has ended `task` without a result (kCancel), or is lost
    kLoaded,      // `task`'s result is in memory too; it took `seconds`
    kDamaged,     // `task`'s result cannot be read; it is computed again
    kScored,      // the score of branch `listed` of `choice`
    kReported,    // the score that branch `listed` of `choice` has at report `step` on its way
    kBranchLost,  // branch `listed` of `choice` has no score, and never will
  };
  Kind kind = Kind::kMade;
  Task task = 0;
  Worker worker = 0;
  Choice choice = 0;
  Listed listed = 0;
  uint32_t step = 0;
  double seconds = 0;
  double score = 0;
  uint64_t bytes = 0;
};

struct Action {
  enum class Kind : uint8_t {
    kRun,         // `worker` begins `task`
    kLoad,        // before that, it copies the result of `task` from disk into memory
    kPlace,       // answers kMade: `worker` stores the result in memory and on disk, or in one of
                  // them; nowhere if nobody needs it
    kNoRoom,      // answers kMade: the result is needed, but fits nowhere; the run cannot go on
    kSpill,       // the result of `task` is copied from memory to disk, before it is forgotten
    kForget,      // the result of `task` leaves memory (in_memory) or the disk (on_disk)
    kCancel,      // `worker` should end `task`: nobody needs its result any more
    kDropped,     // branch `listed` of `choice` has lost
    kSkipped,     // branch `listed` need not be judged: it cannot be kept
    kStopped,     // branch `listed` ends early, by the choice's early_stop
    kBranchLost,  // branch `listed` cannot be judged, because a task failed
    kViolated,    // the score of branch `listed` contradicts the declared shape; branches that were
                  // skipped by it are judged after all
    kChosen,      // `choice` is decided: kept() says for what
  };
  Kind kind = Kind::kRun;
  Task task = 0;
  Worker worker = 0;
  Choice choice = 0;
  Listed listed = 0;
  bool in_memory = false;
  bool on_disk = false;
};

struct EngineStats {
  uint64_t runs = 0;
  uint64_t repeated_runs = 0;  // of tasks whose results had left memory and disk
  double repeated_s = 0;
  uint64_t loads = 0;
  double load_s = 0;
  uint64_t spills = 0;  // results that were written to disk because memory was full
  double spill_s = 0;
  uint64_t evictions = 0;
  uint64_t memory_peak_bytes = 0;
};

// What can be done when a result does not fit into memory.
enum class RoomPlan : uint8_t {
  kRefuse,     // the result itself goes to disk
  kByValue,    // what saves the least time for its size leaves
  kByTotal,    // what saves the least time leaves
  kByLastUse,  // what was not used for the longest time leaves
  kCompare,    // kByValue, unless that loses more than kRefuse
};

// A value, copied freely, so that a copy can be simulated.
class Engine {
 public:
  explicit Engine(EngineOptions options);

  // Tasks and choices may be added at any time. `inputs` must have been added before.
  Task add_task(TaskOptions options);
  Choice add_choice(ChoiceOptions options);
  // Listed numbers of one choice are different.
  void add_branch(Choice choice, Listed listed, Branch branch);
  // No further branches follow.
  void close(Choice choice);
  // The results of the chosen branches are not needed for the choice's sake any more.
  void release(Choice choice);
  // Keeps these branches of a choice with SelectorKind::kAll, and drops its other branches. Called
  // after kChosen.
  void keep_only(Choice choice, const std::vector<Listed>& kept);
  // Runs the task again if its result exists nowhere, and keeps the result until unfetch().
  void fetch(Task task);
  void unfetch(Task task);
  // Keeps the result, once it is made, for tasks that will be added later.
  void expect_reader(Task task);
  void unexpect_reader(Task task);
  void set_order(Order order);

  // Tells what happened; the actions are carried out in this order.
  std::vector<Action> step(const Event& event);
  // What can begin without a new event: after tasks were added, or a worker was lost.
  std::vector<Action> start();
  // All workers end their tasks without results, except for `except`; nothing begins.
  void interrupt(Worker except = UINT32_MAX);
  // Fixes what a copy does with the next result that does not fit into memory, for best_plan().
  void set_plan(RoomPlan plan) {
    plan_ = plan;
    looks_ahead_ = false;
  }

  std::vector<Listed> kept(Choice choice) const;
  const TaskGraph& graph() const { return graph_; }
  const EngineStats& stats() const { return stats_; }
  uint64_t memory_bytes() const { return memory_; }
  const EngineOptions& options() const { return options_; }

  // All branches that a task is the judge of.
  struct Judged {
    Choice choice = 0;
    Listed listed = 0;
  };
  const std::vector<Judged>& judged_by(Task task) const;

 private:
  enum class Standing : uint8_t { kOpen, kKept, kDropped, kSkipped, kStopped, kLost };
  struct Member {
    Branch branch;
    Standing standing = Standing::kOpen;
  };
  struct ChoiceState {
    ChoiceOptions options;
    Selector selector;
    EarlyStop early_stop;
    std::map<Listed, Member> members = {};
    std::map<uint32_t, ScoreLine> lines = {};
    size_t open = 0;
    bool is_closed = false;
    bool is_decided = false;
    bool is_released = false;
  };

  // Where the result of a task that a worker has made will lie.
  struct Placing {
    bool in_memory = false;
    bool on_disk = false;
    uint64_t bytes = 0;
    double seconds = 0;
  };

  // A result that may leave memory.
  struct Leaving {
    double rank = 0;
    Task task = 0;
    double saved_s = 0;
  };

  void made(const Event& event);
  void finished(const Event& event);
  void stopped(Worker worker);
  void loaded(Task task, double seconds);
  void scored(Choice choice, Listed listed, double score);
  void reported(const Event& event);
  void settle(Choice choice, Listed listed, Standing standing);
  void reopen(Choice choice, Listed listed);
  void skip_hopeless(Choice choice);
  void decide(Choice choice);
  void fail(Task task);
  void free_dead();
  void cancel_unneeded();
  void assign();
  void load_inputs(Task task, Worker worker);
  bool make_room(uint64_t bytes, double value);
  std::vector<Leaving> leaving(RoomPlan plan, uint64_t bytes) const;
  RoomPlan best_plan(const Event& made) const;
  void evict(Task task);
  void forget(Task task, bool from_memory, bool from_disk);
  double keep_value(Task task, double remaining) const;
  double recompute_s(Task task, int depth) const;
  double load_s(uint64_t bytes) const;
  bool make_disk_room(uint64_t bytes);

  EngineOptions options_;
  TaskGraph graph_;
  std::vector<ChoiceState> choices_;
  std::map<Task, std::vector<Judged>> judged_;
  std::vector<Task> running_;       // by worker; TaskGraph::kNone if idle
  std::vector<bool> is_made_;       // the worker has the result of its task
  std::vector<bool> is_cancelled_;  // the worker was told to end its task
  std::map<Task, Placing> placing_;
  std::map<Task, Worker> loading_;
  RoomPlan plan_ = RoomPlan::kCompare;  // for the result that is placed now
  bool looks_ahead_ = true;
  uint64_t memory_ = 0;
  uint64_t disk_ = 0;
  double disk_bytes_ = 0;  // measured: loaded from disk
  double disk_s_ = 0;
  EngineStats stats_;
  std::vector<Action> actions_;
};

}  // namespace forebay::explore
