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

}  // namespace
}  // namespace forebay::train
