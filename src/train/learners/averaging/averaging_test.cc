#include "train/learners/averaging/averaging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"

namespace forebay::train {
namespace {

using base::Code;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Range kAll = {.begin = 0, .count = 2};

TEST(Averaging, ValuesWithoutSenseAreRefusedByName) {
  struct Case {
    AveragingOptions options;
    const char* part;
  };
  for (const Case& c : {
           Case{{.learners = 0}, "--learners 0: use 1 to 64"},
           Case{{.learners = base::kLearnersMax + 1}, "--learners 65: use 1 to 64"},
           Case{{.kind = "mean"}, "--averaging mean: use sma, sgd or local"},
           Case{{.steps = 0}, "--averaging-steps 0"},
           Case{{.steps = base::kAveragingStepsMax + 1}, "--averaging-steps 1048577"},
           Case{{.kind = "sgd", .steps = 2}, "use --averaging local"},
           Case{{.kind = "sgd", .rate = 0.5}, "--averaging-rate is for --averaging sma only"},
           Case{{.kind = "local", .rate = 0.5}, "--averaging-rate is for --averaging sma only"},
       }) {
    const auto made = make_averaging(c.options, std::vector<float>(2));
    ASSERT_FALSE(made) << c.part;
    EXPECT_EQ(made.error().code(), Code::kInvalid);
    EXPECT_THAT(made.error().message(), HasSubstr(c.part));
  }
  EXPECT_TRUE(make_averaging({.learners = base::kLearnersMax, .steps = base::kAveragingStepsMax},
                             std::vector<float>(2)));
}

// Three samples of one learner count three times as much as the one of the other, as they would in
// one batch; a learner without labelled samples does not count.
TEST(MeanGradient, IsTheGradientOfAllSamplesTogether) {
  const auto averaging = *make_averaging({.kind = "sgd", .learners = 3}, std::vector<float>(2));
  std::array<std::vector<float>, 3> weights;
  weights.fill({5, 6});
  std::array<std::vector<float>, 3> gradients = {{{4, 8}, {0, 4}, {0, 0}}};
  const std::vector<LearnerNumbers> numbers = {
      {.weights = weights[0], .gradient = gradients[0], .samples = 3},
      {.weights = weights[1], .gradient = gradients[1], .samples = 1},
      {.weights = weights[2], .gradient = gradients[2], .samples = 0}};
  averaging->begin_step(1);
  ASSERT_TRUE(averaging->is_due());
  averaging->before_update(numbers, {.begin = 0, .count = 1});
  EXPECT_THAT(gradients[1], ElementsAre(3, 4));
  averaging->before_update(numbers, {.begin = 1, .count = 1});
  for (const auto& gradient : gradients) EXPECT_THAT(gradient, ElementsAre(3, 7));
  for (auto& own : weights) own = {2, -1};
  averaging->after_update(numbers, kAll);
  averaging->settle(numbers, kAll);
  EXPECT_THAT(averaging->central(), ElementsAre(2, -1));
}

TEST(LocalSgd, TakesTheMeanEveryFewSteps) {
  const auto averaging =
      *make_averaging({.kind = "local", .learners = 2, .steps = 3}, std::vector<float>(2));
  std::array<std::vector<float>, 2> weights;
  weights.fill({0, 0});
  const std::vector<LearnerNumbers> numbers = {{.weights = weights[0]}, {.weights = weights[1]}};
  for (int step = 1; step <= 6; ++step) {
    averaging->begin_step(1);
    averaging->before_update(numbers, kAll);
    weights[0][0] += 1;
    weights[1][1] += 2;
    averaging->after_update(numbers, kAll);
    const auto all = static_cast<float>(step);
    EXPECT_EQ(averaging->is_due(), step % 3 == 0);
    if (averaging->is_due()) {
      for (const auto& own : weights) EXPECT_THAT(own, ElementsAre(all / 2, all));
    } else {
      EXPECT_NE(weights[0], weights[1]);
      averaging->settle(numbers, kAll);
    }
    EXPECT_THAT(averaging->central(), ElementsAre(all / 2, all));
  }
}

// A new learner begins with the mean of the others.
TEST(LocalSgd, GoesOnWithMoreLearners) {
  const auto averaging =
      *make_averaging({.kind = "local", .learners = 2, .steps = 9}, std::vector<float>(2));
  std::array<std::vector<float>, 3> weights = {{{1, 2}, {3, 6}, {0, 0}}};
  std::vector<LearnerNumbers> numbers = {{.weights = weights[0]}, {.weights = weights[1]}};
  averaging->settle(numbers, kAll);
  ASSERT_TRUE(averaging->resize(3).ok());
  numbers.push_back({.weights = weights[2]});
  averaging->restart(numbers, kAll);
  for (const auto& own : weights) EXPECT_THAT(own, ElementsAre(2, 4));
}

}  // namespace
}  // namespace forebay::train
