#include "explore/forecast.h"

#include <algorithm>
#include <queue>

#include "base/random.h"

namespace forebay::explore {

namespace {

// What a worker ends when, in simulated time.
struct End {
  double at_s = 0;
  Worker worker = 0;
  Task task = 0;
  auto operator<=>(const End&) const = default;
};

class Simulation {
 public:
  Simulation(Engine engine, uint64_t seed)
      : engine_(std::move(engine)), random_(seed, base::Purpose::kSimulation) {}

  // Lets the engine place a result first, which a worker has made.
  void place(const Event& made) {
    take(engine_.step(made));
    take(engine_.step({.kind = Event::Kind::kFinished, .task = made.task, .worker = made.worker}));
  }

  Forecast run() {
    take(engine_.start());
    while (!ends_.empty() && has_room_) {
      const End end = ends_.top();
      ends_.pop();
      now_s_ = end.at_s;
      finish(end);
    }
    return {.seconds = now_s_,
            .memory_peak_bytes = engine_.stats().memory_peak_bytes,
            .tasks = tasks_,
            .stats = engine_.stats()};
  }

 private:
  void take(const std::vector<Action>& actions) {
    double load_s = 0;
    for (const Action& action : actions) {
      if (action.kind == Action::Kind::kLoad) {
        const double seconds = load_s_of(action.task);
        load_s += seconds;
        take(engine_.step({.kind = Event::Kind::kLoaded, .task = action.task, .seconds = seconds}));
      } else if (action.kind == Action::Kind::kRun) {
        ++tasks_;
        const double seconds =
            load_s + reading_s(action.task) + engine_.graph().expected(action.task).seconds;
        ends_.push({.at_s = now_s_ + seconds, .worker = action.worker, .task = action.task});
        load_s = 0;
      } else if (action.kind == Action::Kind::kNoRoom) {
        has_room_ = false;
      }
    }
  }

  double load_s_of(Task task) const {
    return static_cast<double>(engine_.graph().node(task).bytes()) /
           engine_.options().disk_bytes_per_s;
  }

  // How long the task reads inputs that lie on disk alone.
  double reading_s(Task task) const {
    double seconds = 0;
    for (const Task input : engine_.graph().node(task).options.inputs) {
      if (!engine_.graph().node(input).in_memory) seconds += load_s_of(input);
    }
    return seconds;
  }

  void finish(const End& end) {
    const TaskGraph::Cost cost = engine_.graph().expected(end.task);
    // A copy, because the vector grows if a choice that is decided adds branches.
    const std::vector<Engine::Judged> judged = engine_.judged_by(end.task);
    for (const Engine::Judged& one : judged) {
      take(engine_.step({.kind = Event::Kind::kScored,
                         .choice = one.choice,
                         .listed = one.listed,
                         .score = random_.uniform()}));
    }
    take(engine_.step({.kind = Event::Kind::kMade,
                       .task = end.task,
                       .worker = end.worker,
                       .seconds = cost.seconds,
                       .bytes = static_cast<uint64_t>(cost.bytes)}));
    take(engine_.step({.kind = Event::Kind::kFinished, .task = end.task, .worker = end.worker}));
  }

  Engine engine_;
  base::Random random_;
  double now_s_ = 0;
  uint64_t tasks_ = 0;
  bool has_room_ = true;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

Forecast forecast(Engine engine, Order order, uint64_t seed) {
  engine.set_order(order);
  engine.interrupt();
  return Simulation(std::move(engine), seed).run();
}

double again_s(Engine engine, const Event& made, RoomPlan plan) {
  engine.interrupt(made.worker);
  engine.set_plan(plan);
  Simulation simulation(std::move(engine), 0);
  simulation.place(made);
  const EngineStats stats = simulation.run().stats;
  return stats.load_s + stats.spill_s + stats.repeated_s;
}

Order best_order(const Engine& engine, uint64_t seed) {
  Order best = Order::kDepth;
  double least_s = forecast(engine, best, seed).seconds;
  for (const Order order : {Order::kCritical, Order::kBreadth}) {
    if (const double seconds = forecast(engine, order, seed).seconds; seconds < least_s) {
      best = order;
      least_s = seconds;
    }
  }
  return best;
}

}  // namespace forebay::explore
