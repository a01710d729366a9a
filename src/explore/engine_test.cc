#include "explore/engine.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/random.h"
#include "explore/forecast.h"

namespace forebay::explore {
namespace {

using testing::ElementsAre;
using Kind = Action::Kind;

// A flow of images, features of several kinds and heads on them, of which a choose keeps some.
struct Flow {
  std::vector<Task> tasks = {};
  std::vector<double> scores = {};  // by listed order
  std::vector<Task> heads = {};     // by listed order
  Choice choice = 0;
};

struct FlowOptions {
  uint32_t features = 3;
  uint32_t heads = 4;  // for each of the features
  SelectorOptions selector;
  Shape shape = Shape::kNone;  // along the heads of the same features
};

Flow add_flow(Engine* engine, const FlowOptions& options, base::Random& random) {
  Flow flow;
  const Task images = engine->add_task({.kind = 0});
  flow.tasks.push_back(images);
  flow.choice = engine->add_choice({.selector = options.selector, .shape = options.shape});
  for (uint32_t i = 0; i < options.features; ++i) {
    const Task features = engine->add_task({.inputs = {images}, .kind = 1});
    flow.tasks.push_back(features);
    double score = 0;
    for (uint32_t j = 0; j < options.heads; ++j) {
      const Task head = engine->add_task({.inputs = {features}, .kind = 2});
      flow.tasks.push_back(head);
      flow.heads.push_back(head);
      const auto step = static_cast<double>(random.below(4));
      score = options.shape == Shape::kIncreasing ? score + step : step;
      flow.scores.push_back(score);
      engine->add_branch(flow.choice, i * options.heads + j,
                         {.result = head, .judge = head, .line = i, .position = j});
    }
  }
  engine->close(flow.choice);
  return flow;
}

std::vector<Listed> best_of(const SelectorOptions& options, const std::vector<double>& scores,
                            const std::set<Listed>& lost) {
  Selector selector(options);
  for (Listed listed = 0; listed < scores.size(); ++listed) {
    if (!lost.contains(listed)) selector.offer(listed, scores[listed]);
  }
  return selector.kept();
}

// Carries out actions in a random order of time, with faults.
class World {
 public:
  World(Engine one, Flow its_flow, base::Random* random, uint32_t faults_percent)
      : engine(std::move(one)),
        flow(std::move(its_flow)),
        random_(random),
        faults_percent_(faults_percent) {}

  void run() {
    take(engine.start());
    for (int steps = 0; !running.empty(); ++steps) {
      ASSERT_LT(steps, 5000) << "the engine does not come to an end";
      advance();
    }
    EXPECT_TRUE(is_chosen);
  }

  void take(const std::vector<Action>& actions) {
    EXPECT_LE(engine.memory_bytes(), engine.options().memory_bytes);
    for (const Action& action : actions) {
      if (action.kind == Kind::kRun) {
        for (const Task input : engine.graph().node(action.task).options.inputs)
          EXPECT_TRUE(engine.graph().node(input).exists());
        EXPECT_FALSE(running.contains(action.worker));
        running[action.worker] = action.task;
        ++runs;
      }
      if (action.kind == Kind::kLoad) {
        take(engine.step({.kind = Event::Kind::kLoaded, .task = action.task, .seconds = 0.1}));
      }
      EXPECT_NE(action.kind, Kind::kNoRoom);
      if (action.kind == Kind::kChosen) is_chosen = true;
      if (action.kind == Kind::kBranchLost) lost.insert(action.listed);
      if (action.kind == Kind::kSkipped) ++skipped;
      if (action.kind == Kind::kViolated) ++violated;
    }
  }

  Engine engine;
  Flow flow;
  std::map<Worker, Task> running;
  std::set<Listed> lost;
  bool is_chosen = false;
  uint64_t runs = 0;
  int skipped = 0;
  int violated = 0;

 private:
  void advance() {
    auto one = running.begin();
    std::advance(one, random_->below(running.size()));
    const auto [worker, task] = *one;
    running.erase(one);
    if (random_->below(100) < faults_percent_) {
      const bool is_for_good = random_->below(3) == 0;
      take(engine.step({.kind = is_for_good ? Event::Kind::kFailed : Event::Kind::kStopped,
                        .task = task,
                        .worker = worker}));
      return;
    }
    for (const Engine::Judged judged : engine.judged_by(task)) {
      take(engine.step({.kind = Event::Kind::kScored,
                        .choice = judged.choice,
                        .listed = judged.listed,
                        .score = flow.scores[judged.listed]}));
    }
    take(engine.step(
        {.kind = Event::Kind::kMade, .task = task, .worker = worker, .seconds = 1, .bytes = 10}));
    take(engine.step({.kind = Event::Kind::kFinished, .task = task, .worker = worker}));
    const auto& kept = engine.graph().on_disk();
    if (!kept.empty() && random_->below(100) < faults_percent_)
      take(engine.step({.kind = Event::Kind::kDamaged, .task = *kept.begin()}));
  }

  base::Random* random_;
  uint32_t faults_percent_;
};

SelectorOptions random_selector(base::Random& random) {
  return {.kind = static_cast<SelectorKind>(random.below(5)),
          .count = 1 + static_cast<uint32_t>(random.below(3)),
          .low = static_cast<double>(random.below(4)),
          .high = static_cast<double>(random.below(6))};
}

TEST(Engine, TheChoiceIsThatOfAllBranchesInAnyOrderOfTime) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    base::Random random(seed, base::Purpose::kTest);
    const FlowOptions options = {.features = 1 + static_cast<uint32_t>(random.below(4)),
                                 .heads = 1 + static_cast<uint32_t>(random.below(5)),
                                 .selector = random_selector(random),
                                 .shape = random.below(2) == 0 ? Shape::kIncreasing : Shape::kNone};
    Engine engine({.workers = 1 + static_cast<uint32_t>(random.below(3)),
                   .memory_bytes = 30 + 10 * random.below(10),
                   .eviction = static_cast<Eviction>(random.below(2)),
                   .disk_bytes_per_s = 20});
    engine.set_order(static_cast<Order>(random.below(3)));
    Flow flow = add_flow(&engine, options, random);
    const uint32_t faults_percent = seed % 3 == 0 ? 10 : 0;
    World world(std::move(engine), std::move(flow), &random, faults_percent);
    ASSERT_NO_FATAL_FAILURE(world.run()) << "seed " << seed;
    EXPECT_EQ(world.violated, 0) << "seed " << seed;
    ASSERT_EQ(world.engine.kept(world.flow.choice),
              best_of(options.selector, world.flow.scores, world.lost))
        << "seed " << seed;
    if (faults_percent == 0 && world.engine.stats().repeated_runs == 0) {
      EXPECT_LE(world.runs, world.flow.tasks.size()) << "seed " << seed;
    }
    for (const Task task : world.engine.graph().in_memory())
      EXPECT_FALSE(world.engine.graph().node(task).is_dead()) << "seed " << seed;
  }
}

TEST(Engine, AShapeThatScoresContradictReopensWhatItSkipped) {
  Engine engine({.workers = 5});
  const Choice choice =
      engine.add_choice({.selector = {.kind = SelectorKind::kTop}, .shape = Shape::kPeak});
  Flow flow = {.scores = {1, 2, 1, 9, 3}, .choice = choice};
  // Scores fall after branch 1, so that 3 and 4 are skipped. But both are running already.
  for (uint32_t i = 0; i < 5; ++i) {
    const Task task = engine.add_task({});
    engine.add_branch(choice, i, {.result = task, .judge = task, .position = i});
  }
  engine.close(choice);
  engine.start();
  const auto score = [&](Listed listed) {
    const auto actions = engine.step({.kind = Event::Kind::kScored,
                                      .choice = choice,
                                      .listed = listed,
                                      .score = flow.scores[listed]});
    std::vector<Kind> kinds;
    for (const Action& action : actions) kinds.push_back(action.kind);
    return kinds;
  };
  score(0);
  score(1);
  EXPECT_THAT(score(2), ElementsAre(Kind::kDropped, Kind::kSkipped, Kind::kSkipped, Kind::kCancel,
                                    Kind::kCancel, Kind::kCancel));
  EXPECT_THAT(score(3), testing::Contains(Kind::kViolated));
  score(4);
  EXPECT_THAT(engine.kept(choice), ElementsAre(3));
}

TEST(Engine, ASkippedTailDoesNotRun) {
  base::Random random(0, base::Purpose::kTest);
  Engine engine({});
  Flow flow = add_flow(&engine,
                       {.features = 4,
                        .heads = 3,
                        .selector = {.kind = SelectorKind::kFirst, .count = 1, .low = -1}},
                       random);
  World world(std::move(engine), std::move(flow), &random, 0);
  world.run();
  EXPECT_EQ(world.runs, 3);  // images, the first features and the first head
  EXPECT_EQ(world.skipped, 11);
}

TEST(Engine, AStoppedBranchIsCancelledAndNeverKept) {
  Engine engine({.workers = 2});
  const Choice choice =
      engine.add_choice({.selector = {.kind = SelectorKind::kTop},
                         .early_stop = {.kind = EarlyStopKind::kAsha, .grace = 1, .factor = 2}});
  for (uint32_t i = 0; i < 2; ++i) {
    const Task task = engine.add_task({});
    engine.add_branch(choice, i, {.result = task, .judge = task});
  }
  engine.close(choice);
  std::ignore = engine.start();
  auto report = [&](Listed listed, double score) {
    std::vector<Kind> kinds;
    for (const Action& action : engine.step({.kind = Event::Kind::kReported,
                                             .choice = choice,
                                             .listed = listed,
                                             .step = 1,
                                             .score = score})) {
      kinds.push_back(action.kind);
    }
    return kinds;
  };
  EXPECT_THAT(report(0, 0.5), ElementsAre());
  EXPECT_THAT(report(1, 0.4), ElementsAre(Kind::kStopped, Kind::kCancel));
  EXPECT_THAT(report(1, 0.3), ElementsAre()) << "it was stopped before";
  // A score that comes too late changes nothing.
  std::ignore =
      engine.step({.kind = Event::Kind::kScored, .choice = choice, .listed = 1, .score = 0.9});
  std::ignore = engine.step({.kind = Event::Kind::kStopped, .task = 1, .worker = 1});
  const auto actions =
      engine.step({.kind = Event::Kind::kScored, .choice = choice, .listed = 0, .score = 0.6});
  EXPECT_THAT(actions, testing::Contains(testing::Field(&Action::kind, Kind::kChosen)));
  EXPECT_THAT(engine.kept(choice), ElementsAre(0));
}

TEST(Engine, ALoserLeavesMemoryAtOnce) {
  base::Random random(0, base::Purpose::kTest);
  Engine engine({});
  const Choice choice = engine.add_choice({.selector = {.kind = SelectorKind::kTop}});
  for (uint32_t i = 0; i < 2; ++i) {
    const Task task = engine.add_task({});
    engine.add_branch(choice, i, {.result = task, .judge = task});
  }
  engine.close(choice);
  Flow flow = {.scores = {1, 2}, .choice = choice};
  World world(std::move(engine), std::move(flow), &random, 0);
  world.run();
  EXPECT_THAT(world.engine.graph().in_memory(), ElementsAre(1));
  EXPECT_EQ(world.engine.memory_bytes(), 10);
}

TEST(Engine, ResultsOfAnEarlierRunAreNotMadeAgain) {
  base::Random random(0, base::Purpose::kTest);
  Engine engine({});
  const Choice choice = engine.add_choice({.selector = {.kind = SelectorKind::kTop}});
  const Task features =
      engine.add_task({.kind = 1, .is_done = true, .on_disk = true, .bytes = 5, .seconds = 2});
  const Task judged = engine.add_task({.inputs = {features}, .is_done = true, .bytes = 5});
  const Task open = engine.add_task({.inputs = {features}});
  engine.add_branch(choice, 0, {.result = judged, .judge = judged});
  engine.add_branch(choice, 1, {.result = open, .judge = open});
  engine.close(choice);
  Flow flow = {.scores = {2, 1}, .choice = choice};
  World world(std::move(engine), std::move(flow), &random, 0);
  world.take(
      world.engine.step({.kind = Event::Kind::kScored, .choice = choice, .listed = 0, .score = 2}));
  world.run();
  EXPECT_EQ(world.runs, 1);
  EXPECT_THAT(world.engine.kept(choice), ElementsAre(0));
  // The winner's result is gone, and is made again when somebody wants it.
  world.engine.fetch(judged);
  world.take(world.engine.start());
  EXPECT_EQ(world.runs, 2);
}

TEST(Engine, DepthFirstFinishesABranchBeforeTheNext) {
  base::Random random(0, base::Purpose::kTest);
  Engine engine({});
  Flow flow = add_flow(&engine, {.features = 2, .heads = 2, .selector = {}}, random);
  Engine breadth = engine;
  breadth.set_order(Order::kBreadth);
  const auto order_of = [&](Engine one) {
    std::vector<Task> order;
    std::vector<Action> actions = one.start();
    while (true) {
      const auto run = std::ranges::find(actions, Kind::kRun, &Action::kind);
      if (run == actions.end()) return order;
      order.push_back(run->task);
      one.step({.kind = Event::Kind::kMade, .task = run->task, .seconds = 1, .bytes = 1});
      actions = one.step({.kind = Event::Kind::kFinished, .task = run->task});
    }
  };
  EXPECT_THAT(order_of(engine), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(order_of(breadth), ElementsAre(0, 1, 4, 2, 3, 5, 6));
}

TEST(Engine, NoRoomAnywhereIsSaid) {
  Engine engine({.memory_bytes = 5, .disk_bytes = 5});
  const Task task = engine.add_task({});
  engine.fetch(task);
  engine.start();
  const auto actions = engine.step({.kind = Event::Kind::kMade, .seconds = 1, .bytes = 6});
  ASSERT_EQ(actions.size(), 1);
  EXPECT_EQ(actions[0].kind, Kind::kNoRoom);
}

TEST(Forecast, EndsIfResultsDisplaceEachOtherForEver) {
  base::Random random(0, base::Purpose::kTest);
  Engine engine({.memory_bytes = 1'000'000, .disk_bytes = 1'000'000});
  add_flow(&engine, {.features = 6, .heads = 2, .selector = {}}, random);
  for (const Order order : {Order::kDepth, Order::kBreadth, Order::kCritical})
    EXPECT_LT(forecast(engine, order, 0).tasks, 2000);
}

TEST(Forecast, TwoWorkersTakeTheLongestBranchFirst) {
  Engine engine({.workers = 2});
  const Choice choice = engine.add_choice({.selector = {.kind = SelectorKind::kAll}});
  // Costs are known from an earlier run: kind 1 takes 1 s, kind 2 takes 4 s.
  engine.add_task({.kind = 1, .is_done = true, .seconds = 1});
  engine.add_task({.kind = 2, .is_done = true, .seconds = 4});
  for (uint32_t i = 0; i < 5; ++i) {
    const Task task = engine.add_task({.kind = i == 4 ? 2U : 1U});
    engine.add_branch(choice, i, {.result = task, .judge = task});
  }
  engine.close(choice);
  EXPECT_DOUBLE_EQ(forecast(engine, Order::kDepth, 0).seconds, 6);
  EXPECT_DOUBLE_EQ(forecast(engine, Order::kCritical, 0).seconds, 4);
  EXPECT_EQ(best_order(engine, 0), Order::kCritical);
}

}  // namespace
}  // namespace forebay::explore
