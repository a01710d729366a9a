#include "io/http/turns.h"

#include <gtest/gtest.h>

namespace forebay::io::http {
namespace {

class NoSink final : public Sink {
 public:
  Status begin(const Head&) override { return {}; }
  Status append(Bytes) override { return {}; }
  Status end() override { return {}; }
};

class TurnsTest : public ::testing::Test {
 protected:
  void push(const std::string& url, const void* reader, int64_t begin_ns = 0,
            bool is_hedge = false) {
    turns_.push(std::make_unique<Transfer>(
        Request{.url = url, .begin_ns = begin_ns, .reader = reader, .is_hedge = is_hedge}, sink_,
        [](const Outcome&) {}));
  }
  std::string pop(int64_t now_ns = 1, bool may_send = true) {
    const auto transfer = turns_.pop(now_ns, may_send);
    return transfer == nullptr ? "" : transfer->request().url;
  }

  NoSink sink_;
  Turns turns_;
  const int a_ = 0;
  const int b_ = 0;
};

TEST_F(TurnsTest, AReadWithAThousandRangesDoesNotStarveAnother) {
  for (int i = 0; i < 1000; ++i) push("a", &a_);
  for (int i = 0; i < 20; ++i) push("b", &b_);
  std::string order;
  for (int i = 0; i < 60; ++i) order += pop();
  EXPECT_EQ(order, std::string(16, 'a') + std::string(16, 'b') + std::string(16, 'a') + "bbbb" +
                       std::string(8, 'a'));
}

TEST_F(TurnsTest, QuestionsGoFirstAndHedgesNeedNoPlace) {
  push("a", &a_);
  push("question", nullptr);
  push("other", nullptr);
  push("hedge", &a_, 0, true);
  EXPECT_EQ(turns_.next_ns(false), 0);
  EXPECT_EQ(pop(1, false), "hedge");
  EXPECT_EQ(pop(1, false), "");
  EXPECT_EQ(turns_.next_ns(false), INT64_MAX);
  EXPECT_EQ(pop(), "question");
  EXPECT_EQ(pop(), "other");
  EXPECT_EQ(pop(), "a");
  EXPECT_TRUE(turns_.empty());
}

TEST_F(TurnsTest, WhatWaitsForItsTimeComesThenFirst) {
  push("late", &a_, 100);
  push("a", &a_);
  push("b", &a_);
  EXPECT_EQ(pop(99), "a");
  EXPECT_EQ(pop(100), "late");
  EXPECT_EQ(pop(100), "b");
  push("late", &a_, 200);
  EXPECT_EQ(turns_.next_ns(true), 200);
  EXPECT_EQ(pop(199), "");
  EXPECT_EQ(pop(200), "late");
}

TEST_F(TurnsTest, TakesOutWhatIsOverWhereverItWaits) {
  push("a", &a_);
  push("over", &a_);
  push("over", &b_);
  push("over", &b_, 50);
  push("over", nullptr);
  push("over", &b_, 0, true);
  const auto over =
      turns_.take_if([](const Transfer& transfer) { return transfer.request().url == "over"; });
  EXPECT_EQ(over.size(), 5u);
  EXPECT_EQ(pop(100), "a");
  EXPECT_EQ(pop(100), "");
  EXPECT_TRUE(turns_.empty());
}

}  // namespace
}  // namespace forebay::io::http
