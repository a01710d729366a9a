#include "explore/engine.h"

#include <algorithm>
#include <utility>

namespace forebay::explore {

Engine::Engine(EngineOptions options)
    : options_(options),
      running_(options.workers, TaskGraph::kNone),
      is_made_(options.workers),
      is_cancelled_(options.workers) {}

Task Engine::add_task(TaskOptions options) {
  if (options.on_disk) disk_ += options.bytes;
  return graph_.add(std::move(options));
}

Choice Engine::add_choice(ChoiceOptions options) {
  choices_.push_back({.options = options,
                      .selector = Selector(options.selector),
                      .early_stop = EarlyStop(options.early_stop)});
  return static_cast<Choice>(choices_.size() - 1);
}

void Engine::add_branch(Choice choice, Listed listed, Branch branch) {
  ChoiceState& state = choices_[choice];
  state.members[listed] = {.branch = branch};
  ++state.open;
  judged_[branch.judge].push_back({.choice = choice, .listed = listed});
  graph_.hold(branch.result, 1);
  graph_.hold(branch.judge, 1);
  if (graph_.node(branch.judge).has_failed || graph_.node(branch.result).has_failed) {
    settle(choice, listed, Standing::kLost);
  } else if (listed >= state.selector.enough_from()) {
    settle(choice, listed, Standing::kSkipped);
  }
}

void Engine::close(Choice choice) {
  choices_[choice].is_closed = true;
  decide(choice);
}

void Engine::release(Choice choice) {
  ChoiceState& state = choices_[choice];
  if (std::exchange(state.is_released, true)) return;
  for (const auto& [listed, member] : state.members) {
    if (member.standing == Standing::kKept) graph_.hold(member.branch.result, -1);
  }
}

void Engine::keep_only(Choice choice, const std::vector<Listed>& kept) {
  ChoiceState& state = choices_[choice];
  for (auto& [listed, member] : state.members) {
    if (member.standing != Standing::kKept || std::ranges::find(kept, listed) != kept.end()) {
      continue;
    }
    member.standing = Standing::kDropped;
    if (!state.is_released) graph_.hold(member.branch.result, -1);
    actions_.push_back({.kind = Action::Kind::kDropped, .choice = choice, .listed = listed});
  }
}

void Engine::fetch(Task task) { graph_.read(task, 1); }
void Engine::unfetch(Task task) { graph_.read(task, -1); }
void Engine::expect_reader(Task task) { graph_.keep(task, 1); }
void Engine::unexpect_reader(Task task) { graph_.keep(task, -1); }
void Engine::set_order(Order order) { graph_.set_order(order); }

const std::vector<Engine::Judged>& Engine::judged_by(Task task) const {
  static const std::vector<Judged> kNothing;
  const auto found = judged_.find(task);
  return found == judged_.end() ? kNothing : found->second;
}

std::vector<Listed> Engine::kept(Choice choice) const {
  std::vector<Listed> out;
  const ChoiceState& state = choices_[choice];
  for (const Listed listed : state.selector.kept()) {
    if (state.members.at(listed).standing == Standing::kKept) out.push_back(listed);
  }
  return out;
}

std::vector<Action> Engine::step(const Event& event) {
  using Kind = Event::Kind;
  switch (event.kind) {
    case Kind::kMade:
      made(event);
      break;
    case Kind::kFinished:
      finished(event);
      break;
    case Kind::kFailed:
      stopped(event.worker);
      fail(event.task);
      break;
    case Kind::kStopped:
      stopped(event.worker);
      break;
    case Kind::kLoaded:
      loaded(event.task, event.seconds);
      break;
    case Kind::kDamaged:
      forget(event.task, true, true);
      break;
    case Kind::kScored:
      scored(event.choice, event.listed, event.score);
      break;
    case Kind::kReported:
      reported(event);
      break;
    case Kind::kBranchLost:
      settle(event.choice, event.listed, Standing::kLost);
      decide(event.choice);
      break;
  }
  return start();
}

std::vector<Action> Engine::start() {
  cancel_unneeded();
  free_dead();
  assign();
  return std::exchange(actions_, {});
}

void Engine::interrupt(Worker except) {
  for (Worker worker = 0; worker < running_.size(); ++worker) {
    if (worker != except) stopped(worker);
  }
}

void Engine::finished(const Event& event) {
  const Task task = running_[event.worker];
  const Placing placed = std::exchange(placing_[task], {});
  placing_.erase(task);
  graph_.finished(task, placed.seconds, placed.bytes);
  graph_.place(task, placed.in_memory, placed.on_disk);
  graph_.end(task);
  running_[event.worker] = TaskGraph::kNone;
  for (const Judged& judged : judged_by(task)) decide(judged.choice);
}

// The worker's task has no result; what was reserved for it is free again.
void Engine::stopped(Worker worker) {
  const Task task = std::exchange(running_[worker], TaskGraph::kNone);
  std::erase_if(loading_, [&](const auto& loading) {
    if (loading.second == worker) memory_ -= graph_.node(loading.first).bytes();
    return loading.second == worker;
  });
  if (task == TaskGraph::kNone) return;
  if (const auto placed = placing_.find(task); placed != placing_.end()) {
    if (placed->second.in_memory) memory_ -= placed->second.bytes;
    if (placed->second.on_disk) disk_ -= placed->second.bytes;
    placing_.erase(placed);
  }
  graph_.end(task);
  for (const Judged& judged : judged_by(task)) decide(judged.choice);
}

void Engine::fail(Task task) {
  std::vector<Choice> changed;
  for (const Task failed : graph_.fail(task)) {
    for (const Judged& judged : judged_by(failed)) {
      settle(judged.choice, judged.listed, Standing::kLost);
      changed.push_back(judged.choice);
    }
  }
  for (const Choice choice : changed) decide(choice);
}

// Ends the branch's part in the choice as an open branch.
void Engine::settle(Choice choice, Listed listed, Standing standing) {
  ChoiceState& state = choices_[choice];
  Member& member = state.members.at(listed);
  if (member.standing != Standing::kOpen) return;
  member.standing = standing;
  --state.open;
  graph_.hold(member.branch.judge, -1);
  if (standing == Standing::kKept && !state.is_released) return;
  graph_.hold(member.branch.result, -1);
  if (standing == Standing::kKept) return;
  auto kind = Action::Kind::kDropped;
  if (standing == Standing::kSkipped) kind = Action::Kind::kSkipped;
  if (standing == Standing::kStopped) kind = Action::Kind::kStopped;
  if (standing == Standing::kLost) kind = Action::Kind::kBranchLost;
  actions_.push_back({.kind = kind, .choice = choice, .listed = listed});
}

void Engine::scored(Choice choice, Listed listed, double score) {
  ChoiceState& state = choices_[choice];
  Member& member = state.members.at(listed);
  // A skipped branch may have been running. Its score is as good as any.
  const bool was_skipped = member.standing == Standing::kSkipped;
  if (member.standing != Standing::kOpen && !(was_skipped && !state.is_decided)) return;
  if (was_skipped) reopen(choice, listed);
  auto& line = state.lines.try_emplace(member.branch.line, state.options.shape).first->second;
  if (!line.add(member.branch.position, score)) {
    actions_.push_back({.kind = Action::Kind::kViolated, .choice = choice, .listed = listed});
    state.options.shape = Shape::kNone;
    for (auto& [other, skipped] : state.members) {
      if (skipped.standing == Standing::kSkipped) reopen(choice, other);
    }
  }
  state.early_stop.complete(listed);
  settle(choice, listed, Standing::kKept);
  for (const Listed dropped : state.selector.offer(listed, score)) {
    Member& loser = state.members.at(dropped);
    loser.standing = Standing::kDropped;
    if (!state.is_released) graph_.hold(loser.branch.result, -1);
    actions_.push_back({.kind = Action::Kind::kDropped, .choice = choice, .listed = dropped});
  }
  skip_hopeless(choice);
  decide(choice);
}

void Engine::reported(const Event& event) {
  ChoiceState& state = choices_[event.choice];
  if (!state.early_stop.add(event.listed, event.step, event.score)) return;
  settle(event.choice, event.listed, Standing::kStopped);
  decide(event.choice);
}

void Engine::reopen(Choice choice, Listed listed) {
  Member& member = choices_[choice].members.at(listed);
  member.standing = Standing::kOpen;
  ++choices_[choice].open;
  graph_.hold(member.branch.result, 1);
  graph_.hold(member.branch.judge, 1);
}

void Engine::skip_hopeless(Choice choice) {
  ChoiceState& state = choices_[choice];
  const bool has_shape = state.options.shape != Shape::kNone;
  if (!has_shape && state.selector.enough_from() == UINT64_MAX) return;
  for (auto& [listed, member] : state.members) {
    if (member.standing != Standing::kOpen) continue;
    ScoreBounds bounds;
    if (const auto line = state.lines.find(member.branch.line);
        has_shape && line != state.lines.end())
      bounds = line->second.bounds(member.branch.position);
    if (state.selector.is_hopeless(listed, bounds)) settle(choice, listed, Standing::kSkipped);
  }
}

void Engine::decide(Choice choice) {
  ChoiceState& state = choices_[choice];
  if (!state.is_closed || state.is_decided || state.open > 0) return;
  // The score of a skipped branch that is running may still contradict the shape.
  for (const auto& [listed, member] : state.members) {
    if (state.options.shape != Shape::kNone && member.standing == Standing::kSkipped &&
        graph_.node(member.branch.judge).is_running) {
      return;
    }
  }
  state.is_decided = true;
  actions_.push_back({.kind = Action::Kind::kChosen, .choice = choice});
}

void Engine::cancel_unneeded() {
  for (Worker worker = 0; worker < running_.size(); ++worker) {
    const Task task = running_[worker];
    if (task == TaskGraph::kNone || is_made_[worker] || graph_.node(task).is_needed) continue;
    if (is_cancelled_[worker]) continue;
    is_cancelled_[worker] = true;
    actions_.push_back({.kind = Action::Kind::kCancel, .task = task, .worker = worker});
  }
}

void Engine::assign() {
  for (Worker worker = 0; worker < running_.size(); ++worker) {
    if (running_[worker] != TaskGraph::kNone) continue;
    const Task task = graph_.begin_next();
    if (task == TaskGraph::kNone) return;
    running_[worker] = task;
    is_made_[worker] = is_cancelled_[worker] = false;
    ++stats_.runs;
    const TaskGraph::Node& node = graph_.node(task);
    if (node.runs > 0) {
      ++stats_.repeated_runs;
      stats_.repeated_s += node.options.seconds;
    }
    load_inputs(task, worker);
    actions_.push_back({.kind = Action::Kind::kRun, .task = task, .worker = worker});
  }
}

}  // namespace forebay::explore
