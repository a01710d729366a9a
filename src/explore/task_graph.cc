#include "explore/task_graph.h"

#include <algorithm>
#include <utility>

namespace forebay::explore {

Task TaskGraph::add(TaskOptions options) {
  const auto task = static_cast<Task>(nodes_.size());
  Node node;
  for (const Task input : options.inputs) {
    Node& made = nodes_[input];
    made.consumers.push_back(task);
    node.level = std::max(node.level, made.level + 1);
    node.missing += made.exists() ? 0 : 1;
    node.has_failed = node.has_failed || made.has_failed;
  }
  node.is_done = options.is_done;
  node.on_disk = options.on_disk;
  node.runs = options.is_done ? 1 : 0;
  if (options.is_done) learn(options);
  node.options = std::move(options);
  nodes_.push_back(std::move(node));
  turns_.emplace_back();
  is_ready_.push_back(false);
  if (nodes_[task].on_disk) on_disk_.insert(task);
  rests_are_old_ = true;
  return task;
}

void TaskGraph::hold(Task task, int change) {
  nodes_[task].holds += static_cast<uint32_t>(change);
  refresh(task);
}

void TaskGraph::read(Task task, int change) {
  nodes_[task].reads += static_cast<uint32_t>(change);
  refresh(task);
}

void TaskGraph::keep(Task task, int change) { nodes_[task].keeps += static_cast<uint32_t>(change); }

// A change of what must run changes whose results are read, and so on upwards.
void TaskGraph::refresh(Task task) {
  std::vector<Task> changed = {task};
  while (!changed.empty()) {
    const Task next = changed.back();
    changed.pop_back();
    Node& node = nodes_[next];
    const bool is_needed =
        !node.exists() && !node.has_failed && (node.reads > 0 || (node.holds > 0 && !node.is_done));
    if (is_needed != node.is_needed) {
      node.is_needed = is_needed;
      for (const Task input : node.options.inputs) {
        nodes_[input].reads += is_needed ? 1U : -1U;
        changed.push_back(input);
      }
    }
    update_ready(next);
  }
}

TaskGraph::Turn TaskGraph::turn_of(Task task) const {
  const Node& node = nodes_[task];
  if (order_ == Order::kBreadth) return {.key = static_cast<double>(node.level), .task = task};
  return {.key = order_ == Order::kCritical ? -node.rest_s : 0, .task = task};
}

void TaskGraph::update_ready(Task task) {
  const Node& node = nodes_[task];
  const bool is_ready = node.is_needed && !node.is_running && node.missing == 0;
  if (is_ready == is_ready_[task]) return;
  is_ready_[task] = is_ready;
  if (is_ready) {
    turns_[task] = turn_of(task);
    ready_.insert(turns_[task]);
  } else {
    ready_.erase(turns_[task]);
  }
}

void TaskGraph::measure_rests() {
  for (Task task = static_cast<Task>(nodes_.size()); task-- > 0;) {
    double longest = 0;
    for (const Task consumer : nodes_[task].consumers) {
      if (nodes_[consumer].is_needed) longest = std::max(longest, nodes_[consumer].rest_s);
    }
    nodes_[task].rest_s = longest + (nodes_[task].is_needed ? expected(task).seconds : 0);
  }
}

void TaskGraph::set_order(Order order) {
  order_ = order;
  rests_are_old_ = true;
}

Task TaskGraph::begin_next() {
  if (std::exchange(rests_are_old_, false)) {
    if (order_ == Order::kCritical) measure_rests();
    ready_.clear();
    for (Task task = 0; task < nodes_.size(); ++task) {
      if (!is_ready_[task]) continue;
      turns_[task] = turn_of(task);
      ready_.insert(turns_[task]);
    }
  }
  if (ready_.empty()) return kNone;
  const Task task = ready_.begin()->task;
  Node& node = nodes_[task];
  node.is_running = true;
  running_.insert(task);
  for (const Task input : node.options.inputs) {
    ++nodes_[input].pins;
    touch(input);
  }
  update_ready(task);
  return task;
}

void TaskGraph::end(Task task) {
  Node& node = nodes_[task];
  if (!std::exchange(node.is_running, false)) return;
  running_.erase(task);
  for (const Task input : node.options.inputs) --nodes_[input].pins;
  update_ready(task);
}

void TaskGraph::place(Task task, bool in_memory, bool on_disk) {
  Node& node = nodes_[task];
  const bool existed = node.exists();
  node.in_memory = in_memory;
  node.on_disk = on_disk;
  in_memory ? (void)in_memory_.insert(task) : (void)in_memory_.erase(task);
  on_disk ? (void)on_disk_.insert(task) : (void)on_disk_.erase(task);
  if (in_memory) touch(task);
  if (node.exists() == existed) return;
  for (const Task consumer : node.consumers) {
    nodes_[consumer].missing += existed ? 1U : -1U;
    update_ready(consumer);
  }
  refresh(task);
}

void TaskGraph::finished(Task task, double seconds, uint64_t bytes) {
  Node& node = nodes_[task];
  node.is_done = true;
  ++node.runs;
  node.options.seconds = seconds;
  node.options.bytes = bytes;
  learn(node.options);
  refresh(task);
}

void TaskGraph::learn(const TaskOptions& options) {
  if (costs_.size() <= options.kind) costs_.resize(options.kind + 1);
  Cost& cost = costs_[options.kind];
  if (cost.count++ == 0) cost.seconds = cost.bytes = 0;
  const auto count = static_cast<double>(cost.count);
  cost.seconds += (options.seconds - cost.seconds) / count;
  cost.bytes += (static_cast<double>(options.bytes) - cost.bytes) / count;
}

std::vector<Task> TaskGraph::fail(Task task) {
  std::vector<Task> failed;
  std::vector<Task> next = {task};
  while (!next.empty()) {
    const Task one = next.back();
    next.pop_back();
    if (nodes_[one].has_failed || (nodes_[one].is_done && one != task)) continue;
    nodes_[one].has_failed = true;
    failed.push_back(one);
    refresh(one);
    next.insert(next.end(), nodes_[one].consumers.begin(), nodes_[one].consumers.end());
  }
  std::ranges::sort(failed);
  return failed;
}

TaskGraph::Cost TaskGraph::expected(Task task) const {
  const Node& node = nodes_[task];
  if (node.runs > 0) {
    return {.seconds = node.options.seconds,
            .bytes = static_cast<double>(node.options.bytes),
            .count = node.runs};
  }
  return node.options.kind < costs_.size() ? costs_[node.options.kind] : Cost();
}

}  // namespace forebay::explore
