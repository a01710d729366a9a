// The part of the engine that decides which results lie in memory and on disk.
#include <algorithm>

#include "explore/engine.h"
#include "explore/forecast.h"

namespace forebay::explore {

namespace {

// Results are written to disk when they are made if that takes less than this part of the time that
// computing them took.
constexpr double kWorthWriting = 10;
constexpr double kNever = 1e30;  // longer than any computation
// A longer chain of results that are all gone counts as never.
constexpr int kRecomputeDepth = 64;
// A flow with more tasks would be simulated for too long each time that memory is full.
constexpr size_t kTasksToSimulate = 2000;
// A task that had to run again so often never gets the room that its readers need.
constexpr uint32_t kMostRuns = 100;

}  // namespace

double Engine::load_s(uint64_t bytes) const {
  const double rate = disk_s_ > 0 ? disk_bytes_ / disk_s_ : options_.disk_bytes_per_s;
  return static_cast<double>(bytes) / rate;
}

double Engine::recompute_s(Task task, int depth) const {
  if (depth >= kRecomputeDepth) return kNever;
  const TaskGraph::Node& node = graph_.node(task);
  double seconds = graph_.expected(task).seconds;
  for (const Task input : node.options.inputs) {
    const TaskGraph::Node& read = graph_.node(input);
    if (read.in_memory) continue;
    seconds += read.on_disk ? load_s(read.bytes()) : recompute_s(input, depth + 1);
  }
  return seconds;
}

// What the result saves in memory, in seconds.
double Engine::keep_value(Task task, double remaining) const {
  const TaskGraph::Node& node = graph_.node(task);
  const double load = load_s(node.bytes());
  if (node.on_disk) return remaining * load;
  // Without a copy on disk, it is written there first, or computed again.
  return std::min((remaining + 1) * load, remaining * recompute_s(task, 0));
}

// The results that leave memory under a plan, so that `bytes` fit; none if they cannot fit.
std::vector<Engine::Leaving> Engine::leaving(RoomPlan plan, uint64_t bytes) const {
  std::vector<Leaving> victims;
  for (const Task task : graph_.in_memory()) {
    const TaskGraph::Node& node = graph_.node(task);
    if (node.pins > 0) continue;
    const double saved_s = keep_value(task, node.reads + node.holds + node.keeps);
    double rank = saved_s;
    if (plan == RoomPlan::kByValue) rank /= static_cast<double>(node.bytes() + 1);
    if (plan == RoomPlan::kByLastUse) rank = static_cast<double>(node.used);
    victims.push_back({.rank = rank, .task = task, .saved_s = saved_s});
  }
  std::ranges::sort(victims, {}, &Leaving::rank);
  uint64_t free = options_.memory_bytes - memory_;
  size_t taken = 0;
  while (free < bytes && taken < victims.size()) free += graph_.node(victims[taken++].task).bytes();
  if (free < bytes) return {};
  victims.resize(taken);
  // Those that a later, larger victim makes superfluous stay, the most valuable first.
  for (size_t i = taken; options_.eviction == Eviction::kAnticipatory && i-- > 0;) {
    const uint64_t size = graph_.node(victims[i].task).bytes();
    if (free - size < bytes) continue;
    free -= size;
    victims.erase(victims.begin() + static_cast<ptrdiff_t>(i));
  }
  return victims;
}

// Makes room in memory for further bytes that save `value` seconds there, unless that would take
// what saves more.
bool Engine::make_room(uint64_t bytes, double value) {
  if (bytes > options_.memory_bytes) return false;
  if (options_.memory_bytes - memory_ < bytes) {
    const bool is_lru = options_.eviction == Eviction::kLeastRecentlyUsed;
    const RoomPlan plan = is_lru ? RoomPlan::kByLastUse : plan_;
    if (plan == RoomPlan::kRefuse) return false;
    const std::vector<Leaving> victims =
        leaving(plan == RoomPlan::kCompare ? RoomPlan::kByValue : plan, bytes);
    if (victims.empty()) return false;
    double lost_s = 0;
    for (const Leaving& victim : victims) lost_s += victim.saved_s;
    if (plan == RoomPlan::kCompare && lost_s >= value) return false;
    for (const Leaving& victim : victims) evict(victim.task);
    stats_.evictions += victims.size();
  }
  memory_ += bytes;
  stats_.memory_peak_bytes = std::max(stats_.memory_peak_bytes, memory_);
  return true;
}

void Engine::evict(Task task) {
  const TaskGraph::Node& node = graph_.node(task);
  const double load = load_s(node.bytes());
  const double remaining = node.reads + node.holds + node.keeps;
  const bool is_cheaper = (remaining + 1) * load < remaining * recompute_s(task, 0);
  if (!node.on_disk && is_cheaper && make_disk_room(node.bytes())) {
    ++stats_.spills;
    stats_.spill_s += load;
    actions_.push_back({.kind = Action::Kind::kSpill, .task = task});
    graph_.place(task, true, true);
  }
  forget(task, true, false);
}

// Simulates the rest of the run under each plan for the result that was made, and returns the one
// that loads and computes again for the shortest time.
RoomPlan Engine::best_plan(const Event& made) const {
  const bool has_room = options_.memory_bytes - memory_ >= made.bytes;
  const bool is_simple =
      options_.eviction == Eviction::kLeastRecentlyUsed || graph_.size() > kTasksToSimulate;
  if (has_room || is_simple || !looks_ahead_) return plan_;
  RoomPlan best = RoomPlan::kCompare;
  double least_s = again_s(*this, made, best);
  for (const RoomPlan plan :
       {RoomPlan::kRefuse, RoomPlan::kByValue, RoomPlan::kByTotal, RoomPlan::kByLastUse}) {
    const double seconds = again_s(*this, made, plan);
    if (seconds >= least_s) continue;
    least_s = seconds;
    best = plan;
  }
  return best;
}

// Makes room on disk by taking results that nobody needs, and those that are in memory too.
bool Engine::make_disk_room(uint64_t bytes) {
  if (bytes > options_.disk_bytes) return false;
  while (disk_ + bytes > options_.disk_bytes) {
    Task victim = TaskGraph::kNone;
    std::pair<bool, double> least;
    for (const Task task : graph_.on_disk()) {
      const TaskGraph::Node& node = graph_.node(task);
      if (node.pins > 0 || (!node.is_dead() && !node.in_memory)) continue;
      const std::pair<bool, double> value = {
          !node.is_dead(), recompute_s(task, 0) / static_cast<double>(node.bytes() + 1)};
      if (victim != TaskGraph::kNone && value >= least) continue;
      victim = task;
      least = value;
    }
    if (victim == TaskGraph::kNone) return false;
    forget(victim, false, true);
  }
  disk_ += bytes;
  return true;
}

void Engine::made(const Event& event) {
  const Task task = event.task;
  const TaskGraph::Node& node = graph_.node(task);
  plan_ = best_plan(event);
  is_made_[event.worker] = true;
  Placing placing = {.bytes = event.bytes, .seconds = event.seconds};
  const bool is_wanted = node.holds + node.keeps + node.reads > 0;
  const double remaining = node.reads + node.holds + node.keeps;
  // If it does not get into memory, its readers load it from disk.
  placing.in_memory = is_wanted && make_room(event.bytes, remaining * load_s(event.bytes));
  // A result that is written much faster than computed survives the end of the run on disk, and one
  // that had to be computed again must not be lost a second time.
  const double load = load_s(event.bytes);
  const bool is_worth = kWorthWriting * load < event.seconds || node.runs > 0;
  const bool is_refused = is_wanted && !placing.in_memory;
  placing.on_disk = (is_worth || is_refused) && make_disk_room(event.bytes);
  if (is_refused && !is_worth) stats_.spill_s += load;
  const bool is_nowhere = is_wanted && !placing.in_memory && !placing.on_disk;
  const bool is_hopeless = node.runs >= kMostRuns;
  plan_ = RoomPlan::kCompare;
  placing_[task] = placing;
  actions_.push_back(
      {.kind = is_nowhere || is_hopeless ? Action::Kind::kNoRoom : Action::Kind::kPlace,
       .task = task,
       .worker = event.worker,
       .in_memory = placing.in_memory,
       .on_disk = placing.on_disk});
}

void Engine::load_inputs(Task task, Worker worker) {
  for (const Task input : graph_.node(task).options.inputs) {
    const TaskGraph::Node& node = graph_.node(input);
    if (node.in_memory) continue;
    ++stats_.loads;
    stats_.load_s += load_s(node.bytes());
    // `reads` counts this task too.
    const double remaining = node.reads + node.holds + node.keeps - 1.0;
    if (remaining <= 0 || loading_.contains(input)) continue;
    if (!make_room(node.bytes(), keep_value(input, remaining))) continue;
    loading_[input] = worker;
    actions_.push_back({.kind = Action::Kind::kLoad, .task = input, .worker = worker});
  }
}

void Engine::loaded(Task task, double seconds) {
  if (loading_.erase(task) == 0) return;
  disk_bytes_ += static_cast<double>(graph_.node(task).bytes());
  disk_s_ += seconds;
  graph_.place(task, true, true);
}

void Engine::forget(Task task, bool from_memory, bool from_disk) {
  const TaskGraph::Node& node = graph_.node(task);
  const bool leaves_memory = from_memory && node.in_memory;
  const bool leaves_disk = from_disk && node.on_disk;
  if (leaves_memory) memory_ -= node.bytes();
  if (leaves_disk) disk_ -= node.bytes();
  if (!leaves_memory && !leaves_disk) return;
  graph_.place(task, node.in_memory && !leaves_memory, node.on_disk && !leaves_disk);
  actions_.push_back({.kind = Action::Kind::kForget,
                      .task = task,
                      .in_memory = leaves_memory,
                      .on_disk = leaves_disk});
}

// Results that nobody needs leave memory at once. On disk they stay, for the next run, until the
// room is needed.
void Engine::free_dead() {
  std::vector<Task> dead;
  for (const Task task : graph_.in_memory()) {
    if (graph_.node(task).is_dead()) dead.push_back(task);
  }
  for (const Task task : dead) forget(task, true, false);
}

}  // namespace forebay::explore
