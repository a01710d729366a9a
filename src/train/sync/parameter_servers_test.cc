#include "train/sync/parameter_servers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forebay::train {
namespace {

TEST(ParameterServers, AnswersAndGradientsTakeTurns) {
  constexpr uint32_t kFloats = 8;
  ParameterServers own({.rank = 0, .processes = 2, .servers = {0, 1}}, std::vector<float>(kFloats));
  std::vector<float> gradient(kFloats, 1);
  ASSERT_TRUE(own.before_update(gradient).ok());
  const std::vector<float> floats(kFloats / 2);
  for (uint64_t step = 1; step <= 3; ++step) {
    const MessageHeader slice = {
        .sender = 1, .step = step, .steps = 1, .begin = 0, .count = kFloats / 2};
    ASSERT_TRUE(own.received(slice, floats).ok());
  }
  std::vector<MessageHeader::Kind> kinds;
  Outgoing out;
  while (own.next(1, kFloats / 4, &out)) {
    kinds.push_back(out.header.kind);
    out = {};
  }
  using enum MessageHeader::Kind;
  // Messages of two numbers each: three answers of four numbers, and four numbers of gradients.
  EXPECT_EQ(kinds,
            (std::vector{kAnswer, kSlice, kAnswer, kSlice, kAnswer, kAnswer, kAnswer, kAnswer}));
}

// Gradients that wait in their own process are summed with later ones; at a server they would only
// become old.
TEST(ParameterServers, GradientsWaitUntilEarlierOnesAreAnswered) {
  constexpr uint32_t kFloats = 8;
  constexpr uint32_t kMessage = 2;
  ParameterServers own({.rank = 0, .processes = 2, .servers = {1}}, std::vector<float>(kFloats));
  std::vector<float> gradient(kFloats, 1);
  ASSERT_TRUE(own.before_update(gradient).ok());
  const auto sends = [&] {
    int messages = 0;
    for (Outgoing out; own.next(1, kMessage, &out); out = {}) ++messages;
    return messages;
  };
  EXPECT_EQ(sends(), 2);
  const MessageHeader answer = {
      .kind = MessageHeader::Kind::kAnswer, .sender = 1, .step = 1, .begin = 0, .count = kMessage};
  ASSERT_TRUE(own.received(answer, std::vector<float>(kMessage)).ok());
  EXPECT_EQ(sends(), 1);
}

// Also if a gradient is the sum of several steps.
TEST(ParameterServers, WeightsDecayOnceInAStepOfTheJob) {
  constexpr float kWeight = 8;
  ParameterServers own({.rank = 0, .processes = 2, .servers = {0}}, std::vector<float>(1, kWeight));
  own.set_rules({{.range = {0, 1}, .rate = 1, .weight_decay = 0.01}});
  MessageHeader slice = {.sender = 1, .step = 4, .steps = 4, .begin = 0, .count = 1};
  for (int step = 0; step < 4; ++step) {
    std::vector<float> gradient(1);
    ASSERT_TRUE(own.before_update(gradient).ok());
  }
  ASSERT_TRUE(own.received(slice, std::vector<float>(1)).ok());
  std::vector<float> weights(1);
  own.after_update(weights);
  EXPECT_NEAR(weights.front(), kWeight * std::pow(0.99, 4), 0.002);
  for (const uint64_t steps : {0u, 5u}) {  // no steps, and more than the sender has made
    slice.steps = steps;
    EXPECT_FALSE(own.received(slice, std::vector<float>(1)).ok());
  }
}

}  // namespace
}  // namespace forebay::train
