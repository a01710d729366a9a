#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "bind/bind.h"
#include "explore/forecast.h"

namespace forebay::bind {
namespace {

using explore::Action;
using explore::Engine;
using explore::Event;
using explore::Task;
using explore::Worker;

// The names that Python uses for the values of each enum, in the order of the enum.
constexpr std::array kSelectors = {"top", "bottom", "above", "first", "within", "all"};
constexpr std::array kShapes = {"none", "increasing", "decreasing", "peak", "valley"};
constexpr std::array kOrders = {"depth", "breadth", "critical"};
constexpr std::array kEarlyStops = {"none", "asha", "median"};
constexpr std::array kEvictions = {"anticipatory", "lru"};
constexpr std::array kActions = {"run",         "load",     "place",   "no room", "spill",
                                 "forget",      "cancel",   "dropped", "skipped", "stopped",
                                 "branch lost", "violated", "chosen"};

template <class T, size_t kCount>
T value_of(const std::array<const char*, kCount>& names, const std::string& name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<T>(i);
  }
  raise({base::Code::kInvalid, "there is no " + name});
}

Engine make_engine(uint32_t workers, uint64_t memory_bytes, uint64_t disk_bytes,
                   const std::string& eviction, double disk_bytes_per_s) {
  return Engine({.workers = workers,
                 .memory_bytes = memory_bytes,
                 .disk_bytes = disk_bytes,
                 .eviction = value_of<explore::Eviction>(kEvictions, eviction),
                 .disk_bytes_per_s = disk_bytes_per_s});
}

nb::dict stats(const Engine& self) {
  const explore::EngineStats& stats = self.stats();
  nb::dict out;
  out["runs"] = stats.runs;
  out["repeated_runs"] = stats.repeated_runs;
  out["repeated_s"] = stats.repeated_s;
  out["loads"] = stats.loads;
  out["load_s"] = stats.load_s;
  out["spills"] = stats.spills;
  out["evictions"] = stats.evictions;
  out["memory_peak_bytes"] = stats.memory_peak_bytes;
  return out;
}

nb::dict forecast(const Engine& self, const std::string& order, uint64_t seed) {
  const auto found = explore::forecast(self, value_of<explore::Order>(kOrders, order), seed);
  nb::dict out;
  out["seconds"] = found.seconds;
  out["memory_peak_bytes"] = found.memory_peak_bytes;
  out["tasks"] = found.tasks;
  out["repeated_s"] = found.stats.repeated_s;
  out["load_s"] = found.stats.load_s;
  out["spill_s"] = found.stats.spill_s;
  return out;
}

void bind_action(nb::module_& m) {
  nb::class_<Action>(m, "ExploreAction", "What a run of a flow does next.")
      .def_prop_ro("kind", [](const Action& self) { return kActions.at(size_t(self.kind)); })
      .def_ro("task", &Action::task)
      .def_ro("worker", &Action::worker)
      .def_ro("choice", &Action::choice)
      .def_ro("listed", &Action::listed)
      .def_ro("in_memory", &Action::in_memory)
      .def_ro("on_disk", &Action::on_disk);
}

void bind_flow(nb::class_<Engine>& engine) {
  engine
      .def(
          "add_task",
          [](Engine& self, std::vector<Task> inputs, uint32_t kind, bool is_done, bool on_disk,
             uint64_t bytes, double seconds) {
            return self.add_task({.inputs = std::move(inputs),
                                  .kind = kind,
                                  .is_done = is_done,
                                  .on_disk = on_disk,
                                  .bytes = bytes,
                                  .seconds = seconds});
          },
          nb::arg("inputs"), nb::arg("kind"), nb::arg("is_done") = false,
          nb::arg("on_disk") = false, nb::arg("bytes") = 0, nb::arg("seconds") = 0.0)
      .def(
          "add_choice",
          [](Engine& self, const std::string& selector, uint32_t count, double low, double high,
             const std::string& shape, const std::string& early_stop, uint32_t grace,
             uint32_t factor, uint32_t startup) {
            return self.add_choice(
                {.selector = {.kind = value_of<explore::SelectorKind>(kSelectors, selector),
                              .count = count,
                              .low = low,
                              .high = high},
                 .shape = value_of<explore::Shape>(kShapes, shape),
                 .early_stop = {.kind = value_of<explore::EarlyStopKind>(kEarlyStops, early_stop),
                                .grace = grace,
                                .factor = factor,
                                .startup = startup,
                                .lowest_is_best = selector == "bottom"}});
          },
          nb::arg("selector"), nb::arg("count"), nb::arg("low"), nb::arg("high"), nb::arg("shape"),
          nb::arg("early_stop") = "none", nb::arg("grace") = 1, nb::arg("factor") = 4,
          nb::arg("startup") = 5)
      .def(
          "add_branch",
          [](Engine& self, explore::Choice choice, uint64_t listed, Task result, Task judge,
             uint32_t line, uint32_t position) {
            self.add_branch(choice, listed,
                            {.result = result, .judge = judge, .line = line, .position = position});
          },
          nb::arg("choice"), nb::arg("listed"), nb::arg("result"), nb::arg("judge"),
          nb::arg("line"), nb::arg("position"))
      .def("workers", [](const Engine& self) { return self.options().workers; })
      .def("close", &Engine::close, nb::arg("choice"))
      .def("release", &Engine::release, nb::arg("choice"))
      .def("keep_only", &Engine::keep_only, nb::arg("choice"), nb::arg("kept"))
      .def("kept", &Engine::kept, nb::arg("choice"))
      .def("fetch", &Engine::fetch, nb::arg("task"))
      .def("unfetch", &Engine::unfetch, nb::arg("task"))
      .def("expect_reader", &Engine::expect_reader, nb::arg("task"))
      .def("unexpect_reader", &Engine::unexpect_reader, nb::arg("task"))
      .def(
          "judged_by",
          [](const Engine& self, Task task) {
            std::vector<std::pair<uint32_t, uint64_t>> out;
            for (const auto& judged : self.judged_by(task))
              out.emplace_back(judged.choice, judged.listed);
            return out;
          },
          nb::arg("task"));
}

template <Event::Kind kKind>
std::vector<Action> of_worker(Engine& self, Task task, Worker worker) {
  return self.step({.kind = kKind, .task = task, .worker = worker});
}

void bind_events(nb::class_<Engine>& engine) {
  using Kind = Event::Kind;
  engine
      .def(
          "made",
          [](Engine& self, Task task, Worker worker, double seconds, uint64_t bytes) {
            return self.step({.kind = Kind::kMade,
                              .task = task,
                              .worker = worker,
                              .seconds = seconds,
                              .bytes = bytes});
          },
          nb::arg("task"), nb::arg("worker"), nb::arg("seconds"), nb::arg("bytes"))
      .def("finished", &of_worker<Kind::kFinished>, nb::arg("task"), nb::arg("worker"))
      .def("failed", &of_worker<Kind::kFailed>, nb::arg("task"), nb::arg("worker"))
      .def("stopped", &of_worker<Kind::kStopped>, nb::arg("task"), nb::arg("worker"))
      .def(
          "loaded",
          [](Engine& self, Task task, double seconds) {
            return self.step({.kind = Kind::kLoaded, .task = task, .seconds = seconds});
          },
          nb::arg("task"), nb::arg("seconds"))
      .def(
          "damaged",
          [](Engine& self, Task task) { return self.step({.kind = Kind::kDamaged, .task = task}); },
          nb::arg("task"))
      .def(
          "scored",
          [](Engine& self, explore::Choice choice, uint64_t listed, double score) {
            return self.step(
                {.kind = Kind::kScored, .choice = choice, .listed = listed, .score = score});
          },
          nb::arg("choice"), nb::arg("listed"), nb::arg("score"))
      .def(
          "reported",
          [](Engine& self, explore::Choice choice, uint64_t listed, uint32_t step, double score) {
            return self.step({.kind = Kind::kReported,
                              .choice = choice,
                              .listed = listed,
                              .step = step,
                              .score = score});
          },
          nb::arg("choice"), nb::arg("listed"), nb::arg("step"), nb::arg("score"))
      .def(
          "branch_lost",
          [](Engine& self, explore::Choice choice, uint64_t listed) {
            return self.step({.kind = Kind::kBranchLost, .choice = choice, .listed = listed});
          },
          nb::arg("choice"), nb::arg("listed"))
      .def("start", &Engine::start);
}

}  // namespace

void bind_explore(nb::module_& m) {
  bind_action(m);
  nb::class_<Engine> engine(m, "ExploreEngine", "Decides what a run of a flow does next.");
  engine
      .def(
          "__init__",
          [](Engine* self, uint32_t workers, uint64_t memory_bytes, uint64_t disk_bytes,
             const std::string& eviction, double disk_bytes_per_s) {
            new (self)
                Engine(make_engine(workers, memory_bytes, disk_bytes, eviction, disk_bytes_per_s));
          },
          nb::arg("workers"), nb::arg("memory_bytes"), nb::arg("disk_bytes"),
          nb::arg("eviction") = "anticipatory", nb::arg("disk_bytes_per_s") = 500e6)
      .def(
          "set_order",
          [](Engine& self, const std::string& order) {
            self.set_order(value_of<explore::Order>(kOrders, order));
          },
          nb::arg("order"))
      .def(
          "best_order",
          [](const Engine& self, uint64_t seed) {
            return kOrders.at(size_t(explore::best_order(self, seed)));
          },
          nb::arg("seed"))
      .def("forecast", &forecast, nb::arg("order"), nb::arg("seed"))
      .def("stats", &stats);
  bind_flow(engine);
  bind_events(engine);
}

}  // namespace forebay::bind
