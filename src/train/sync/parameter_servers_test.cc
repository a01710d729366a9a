#include "train/sync/parameter_servers.h"

#include <gtest/gtest.h>

namespace forebay::train {
namespace {

TEST(ParameterServers, AnswersAndGradientsTakeTurns) {
  constexpr uint32_t kFloats = 8;
  ParameterServers own({.rank = 0, .processes = 2, .servers = {0, 1}}, std::vector<float>(kFloats));
  std::vector<float> gradient(kFloats, 1);
  ASSERT_TRUE(own.before_update(gradient).ok());
  const std::vector<float> floats(kFloats / 2);
  for (int i = 0; i < 3; ++i) {
    const MessageHeader slice = {.sender = 1, .begin = 0, .count = kFloats / 2};
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

// What waits at home is merged with what comes later; what waits at a server only becomes old.
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

// How far a gradient of 1 has moved the weights after so many steps of two processes, of which the
// other one sends its own for `merged` steps at a time.
float moved(int steps, int merged, bool nesterov) {
  ParameterServers own({.rank = 0, .processes = 2, .servers = {0}}, std::vector<float>(1));
  own.set_rules({{.range = {0, 1}, .rate = 0.1, .momentum = 0.9, .nesterov = nesterov}});
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> gradient(1, 1);
    EXPECT_TRUE(own.before_update(gradient).ok());
    if (step % merged != 0) continue;
    const MessageHeader slice = {
        .sender = 1, .steps = static_cast<uint64_t>(merged), .begin = 0, .count = 1};
    const std::vector<float> theirs(1, 0.5F * static_cast<float>(merged));
    EXPECT_TRUE(own.received(slice, theirs).ok());
    for (Outgoing out; own.next(1, 1, &out);) out = {};
  }
  std::vector<float> weights(1);
  own.after_update(weights);
  return -weights.front();
}

TEST(ParameterServers, WeightsMoveAsFarAsWithOneOptimizer) {
  for (const bool nesterov : {false, true}) {
    float expected = 0;
    float momentum = 0;
    for (int step = 0; step < 12; ++step) {
      momentum = 0.9F * momentum + 1;
      expected += 0.1F * (nesterov ? 1 + 0.9F * momentum : momentum);
    }
    EXPECT_NEAR(moved(12, 1, nesterov), expected, 0.05 * expected);
    EXPECT_NEAR(moved(12, 3, nesterov), expected, 0.15 * expected);
  }
}

}  // namespace
}  // namespace forebay::train
