#include "prep/host/server_state.h"

#include <gtest/gtest.h>

namespace forebay::prep {
namespace {

using base::Code;
using Next = ServerState::Next;
using Lost = ServerState::Lost;

constexpr int64_t kMs = 1'000'000;

Result<uint32_t> no_answer() { return base::fail(Code::kUnavailable, "connection refused"); }

TEST(ServerState, IsAskedAgainAfterGrowingDelays) {
  ServerState state;
  EXPECT_EQ(state.ask_ns(), INT64_MAX) << "the first time is the caller's choice";
  int64_t now_ns = 0;
  for (const int64_t delay_ms : {500, 1000, 2000, 4000, 8000, 10000, 10000}) {
    state.ask();
    EXPECT_EQ(state.ask_ns(), INT64_MAX);
    EXPECT_EQ(state.answer_job(no_answer(), "", false, now_ns), Next::kNothing);
    EXPECT_EQ(state.ask_ns(), now_ns + delay_ms * kMs);
    EXPECT_EQ(state.trouble(), "connection refused");
    now_ns = state.ask_ns();
  }
  state.ask();
  EXPECT_EQ(state.answer_job(3, "", false, now_ns), Next::kUse);
  EXPECT_TRUE(state.is_up());
  EXPECT_EQ(state.keeps(), 3u);
  EXPECT_EQ(state.trouble(), "");
  EXPECT_EQ(state.ask_ns(), INT64_MAX);
}

TEST(ServerState, IsAskedAtOnceIfItWasUpForLong) {
  ServerState state;
  state.answer_job(1, "", false, 0);
  EXPECT_TRUE(state.lose("gone", 600 * kMs));
  EXPECT_EQ(state.ask_ns(), 600 * kMs);
  state.answer_job(1, "", false, 700 * kMs);
  EXPECT_TRUE(state.lose("gone at once", 701 * kMs));
  EXPECT_EQ(state.ask_ns(), 1701 * kMs);
  EXPECT_FALSE(state.lose("gone", 702 * kMs)) << "it was down already";
}

TEST(ServerState, IsUpOnlyWithTheListOfTheEpoch) {
  ServerState state;
  EXPECT_EQ(state.answer_job(1, "list of epoch 0", true, 0), Next::kSendList);
  EXPECT_FALSE(state.is_up());
  EXPECT_EQ(state.ask_ns(), INT64_MAX) << "the list is on its way";
  // Epoch 1 begins before the answer: no second list is sent until the first has arrived.
  EXPECT_EQ(state.begin_epoch("list of epoch 1"), Next::kNothing);
  EXPECT_EQ(state.answer_list({}, "list of epoch 0", "list of epoch 1", 1), Next::kSendList);
  EXPECT_EQ(state.answer_list({}, "list of epoch 1", "list of epoch 1", 2), Next::kUse);
  EXPECT_TRUE(state.is_up());
  EXPECT_EQ(state.begin_epoch("list of epoch 1"), Next::kUse);
  EXPECT_EQ(state.begin_epoch(""), Next::kSendList);
  EXPECT_FALSE(state.is_up());
}

TEST(ServerState, GetsTheJobAgainIfItLosesItBeforeTheListArrives) {
  ServerState state;
  state.answer_job(1, "list", true, 0);
  EXPECT_FALSE(state.lose("ended", 1));
  EXPECT_EQ(state.answer_list({}, "list", "list", 7), Next::kNothing);
  EXPECT_EQ(state.ask_ns(), 7);
}

TEST(ServerState, IsNoLongerUsedAfterThreeDamagedBatches) {
  ServerState state;
  state.answer_job(1, "", false, 0);
  EXPECT_EQ(state.fail({Code::kIo, "a sample cannot be read"}), Lost::kStep);
  EXPECT_EQ(state.fail({Code::kCorrupt, "a checksum differs"}), Lost::kStep);
  EXPECT_EQ(state.fail({Code::kCorrupt, "a checksum differs"}), Lost::kStep);
  EXPECT_FALSE(state.is_banned());
  EXPECT_EQ(state.fail({Code::kCorrupt, "a checksum differs"}), Lost::kServer);
  EXPECT_TRUE(state.is_banned());
  EXPECT_EQ(state.trouble(), "it sends damaged batches: a checksum differs");
  EXPECT_TRUE(state.lose(state.trouble(), 1));
  EXPECT_EQ(state.ask_ns(), INT64_MAX);
  EXPECT_EQ(state.answer_job(1, "", false, 2), Next::kNothing);
  EXPECT_EQ(state.begin_epoch(""), Next::kNothing);
}

TEST(ServerState, AServerThatDoesNotAnswerIsLost) {
  ServerState state;
  state.answer_job(1, "", false, 0);
  EXPECT_EQ(state.fail({Code::kUnavailable, "connection reset"}), Lost::kServer);
}

}  // namespace
}  // namespace forebay::prep
