// The part of the engine that decides which results lie in memory and on disk.
#include <algorithm>

#include "explore/engine.h"

namespace forebay::explore {

namespace {

constexpr double kNever = 1e30;  // longer than any computation
// A longer chain of results that are all gone counts as never.
constexpr int kRecomputeDepth = 64;
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

// What a byte of the result saves in memory, in seconds.
double Engine::keep_value(Task task, double remaining) const {
  const TaskGraph::Node& node = graph_.node(task);
  double again_s = recompute_s(task, 0);
  if (node.on_disk) again_s = std::min(again_s, load_s(node.bytes()));
  return remaining * again_s / static_cast<double>(std::max<uint64_t>(node.bytes(), 1));
}

// Makes room in memory for further bytes, unless that would take what is worth more than `value`.
bool Engine::make_room(uint64_t bytes, double value) {
  if (bytes > options_.memory_bytes) return false;
  std::vector<std::pair<double, Task>> victims;
  const bool is_lru = options_.eviction == Eviction::kLeastRecentlyUsed;
  uint64_t free = options_.memory_bytes - std::min(memory_, options_.memory_bytes);
  if (memory_ <= options_.memory_bytes && free >= bytes) {
    memory_ += bytes;
    stats_.memory_peak_bytes = std::max(stats_.memory_peak_bytes, memory_);
    return true;
  }
  for (const Task task : graph_.in_memory()) {
    const TaskGraph::Node& node = graph_.node(task);
    if (node.pins > 0) continue;
    const double remaining = node.reads + node.holds + node.keeps;
    victims.emplace_back(is_lru ? static_cast<double>(node.used) : keep_value(task, remaining),
                         task);
  }
  std::ranges::sort(victims);
  size_t taken = 0;
  while (free < bytes && taken < victims.size()) {
    if (!is_lru && victims[taken].first >= value) return false;
    free += graph_.node(victims[taken++].second).bytes();
  }
  if (free < bytes) return false;
  for (size_t i = 0; i < taken; ++i) {
    forget(victims[i].second, true, false);
    ++stats_.evictions;
  }
  memory_ += bytes;
  stats_.memory_peak_bytes = std::max(stats_.memory_peak_bytes, memory_);
  return true;
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
      const std::pair<bool, double> value = {!node.is_dead(), keep_value(task, 1)};
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
  is_made_[event.worker] = true;
  Placing placing = {.bytes = event.bytes, .seconds = event.seconds};
  const bool is_wanted = node.holds + node.keeps + node.reads > 0;
  const double remaining = node.reads + node.holds + node.keeps;
  const double value =
      remaining * event.seconds / static_cast<double>(std::max<uint64_t>(event.bytes, 1));
  placing.in_memory = is_wanted && make_room(event.bytes, value);
  // A result that is loaded faster than computed survives the end of the run on disk, and one that
  // had to be computed again must not be lost a second time.
  const bool is_worth = load_s(event.bytes) < event.seconds || node.runs > 0;
  placing.on_disk = (is_worth || (is_wanted && !placing.in_memory)) && make_disk_room(event.bytes);
  const bool is_nowhere = is_wanted && !placing.in_memory && !placing.on_disk;
  const bool is_hopeless = node.runs >= kMostRuns;
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
