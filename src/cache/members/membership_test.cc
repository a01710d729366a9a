// One machine's part of the protocol, step by step. membership_network_test.cc has many of them.
#include "cache/members/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/limits.h"

namespace forebay::cache {
namespace {

using Kind = Message::Kind;

constexpr int64_t kMillisecond = 1'000'000;

Member member(const std::string& id, uint64_t incarnation = 10) {
  return {.id = id, .host = "host-" + id, .port = 9, .room_bytes = 5, .incarnation = incarnation};
}

// The machine "me", whose clock begins at a time other than 0.
class OneMachine : public testing::Test {
 protected:
  Membership::Actions step(const Membership::Event& event) {
    auto actions = me_.step(now_ns_, event);
    next_tick_ns_ = actions.next_tick_ns;
    return actions;
  }
  Membership::Actions get(const Message& message) { return step(Membership::Received{message}); }
  Membership::Actions hear(const MemberUpdate& update, Kind kind = Kind::kGossip) {
    return get({.kind = kind, .from = member("a"), .updates = {update}});
  }
  // Ticks whenever a tick is due, for this long.
  std::vector<Message> run_for(int64_t ns) {
    std::vector<Message> sent;
    for (const int64_t end_ns = now_ns_ + ns; next_tick_ns_ <= end_ns;) {
      now_ns_ = std::max(now_ns_, next_tick_ns_);
      for (auto& send : step(Membership::Tick{}).sends) sent.push_back(std::move(send.message));
    }
    return sent;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> ids;
    for (const Member& some : me_.members()) ids.push_back(some.id);
    return ids;
  }

  int64_t now_ns_ = 77'000 * kMillisecond;
  int64_t next_tick_ns_ = 0;
  Membership me_{member("me"), 1};
};

size_t count_kind(const std::vector<Message>& messages, Kind kind) {
  return static_cast<size_t>(std::ranges::count(messages, kind, &Message::kind));
}

TEST_F(OneMachine, AloneIsItsOnlyMemberAndSendsNothing) {
  const auto actions = step(Membership::Seeds{{member("me")}});
  EXPECT_TRUE(actions.members_changed);
  EXPECT_TRUE(actions.sends.empty());
  EXPECT_THAT(run_for(60'000 * kMillisecond), testing::IsEmpty());
  EXPECT_THAT(me_.members(), testing::ElementsAre(member("me")));
}

TEST_F(OneMachine, EveryMessageBringsItsSender) {
  step(Membership::Seeds{});
  EXPECT_TRUE(get({.kind = Kind::kAck, .from = member("a"), .probe = 1}).members_changed);
  EXPECT_THAT(ids(), testing::ElementsAre("a", "me"));
  EXPECT_FALSE(get({.kind = Kind::kAck, .from = member("a"), .probe = 1}).members_changed);
}

TEST_F(OneMachine, AMachineThatIsGoneIsAskedAtItsNewAddress) {
  step(Membership::Seeds{{member("a")}});
  run_for(5'000 * kMillisecond);
  ASSERT_THAT(ids(), testing::ElementsAre("me"));
  Member seed = member("a", 0);
  EXPECT_TRUE(step(Membership::Seeds{{seed}}).sends.empty());
  seed.host = "host-elsewhere";
  const auto actions = step(Membership::Seeds{{seed}});
  ASSERT_EQ(actions.sends.size(), 1u);
  EXPECT_EQ(actions.sends[0].host, "host-elsewhere");
  EXPECT_THAT(ids(), testing::ElementsAre("me"));  // until it answers
}

TEST_F(OneMachine, ASilentMemberIsDeadSoonAndOnlyThen) {
  step(Membership::Seeds{{member("a")}});
  run_for(250 * kMillisecond);
  EXPECT_THAT(ids(), testing::ElementsAre("a", "me"));
  run_for(1'000 * kMillisecond);
  EXPECT_THAT(ids(), testing::ElementsAre("me"));
}

TEST_F(OneMachine, OnlyAHigherIncarnationBringsTheDeadBack) {
  step(Membership::Seeds{{member("a"), member("b")}});
  hear({.member = member("b", 20), .state = MemberState::kDead});
  EXPECT_THAT(ids(), testing::ElementsAre("a", "me"));
  hear({.member = member("b", 20)});
  hear({.member = member("b", 20), .state = MemberState::kSuspect});
  EXPECT_THAT(ids(), testing::ElementsAre("a", "me"));
  Member back = member("b", 21);
  back.port = 1234;
  EXPECT_TRUE(hear({.member = back}).members_changed);
  EXPECT_EQ(me_.members()[1], back);
}

TEST_F(OneMachine, OnComparingADeadMemberMayStillAnswer) {
  step(Membership::Seeds{{member("a"), member("b")}});
  hear({.member = member("b"), .state = MemberState::kDead}, Kind::kSync);
  EXPECT_THAT(ids(), testing::ElementsAre("a", "b", "me"));
  hear({.member = member("c"), .state = MemberState::kDead}, Kind::kSync);
  hear({.member = member("b", 11)});
  run_for(100 * kMillisecond);
  EXPECT_THAT(ids(), testing::ElementsAre("a", "b", "me"));
}

TEST_F(OneMachine, WhoeverThinksItDeadIsToldOfAHigherIncarnation) {
  step(Membership::Seeds{{member("a")}});
  hear({.member = member("me", 9), .state = MemberState::kDead});
  EXPECT_EQ(me_.self().incarnation, 10u);
  hear({.member = member("me", 10), .state = MemberState::kSuspect, .accuser = 1});
  EXPECT_EQ(me_.self().incarnation, 11u);
  hear({.member = member("me", 500), .state = MemberState::kLeft});
  EXPECT_EQ(me_.self().incarnation, 501u);
  // The pinging member learns it from the answer.
  const auto actions = get({.kind = Kind::kPing, .from = member("a"), .probe = 3});
  ASSERT_EQ(actions.sends.size(), 1u);
  EXPECT_EQ(actions.sends[0].message.kind, Kind::kAck);
  EXPECT_EQ(actions.sends[0].message.from.incarnation, 501u);
}

TEST_F(OneMachine, ASuspectIsToldWithTheNextMessage) {
  step(Membership::Seeds{{member("a"), member("b")}});
  hear({.member = member("b"), .state = MemberState::kSuspect, .accuser = 1});
  const auto actions = get({.kind = Kind::kPing, .from = member("b"), .probe = 3});
  ASSERT_EQ(actions.sends.size(), 1u);
  ASSERT_FALSE(actions.sends[0].message.updates.empty());
  EXPECT_EQ(actions.sends[0].message.updates[0].member.id, "b");
  EXPECT_EQ(actions.sends[0].message.updates[0].state, MemberState::kSuspect);
}

TEST_F(OneMachine, AnEarlierProcessIsAnsweredAndALivingOneDecidesWithIt) {
  Member other = member("me", 100);
  other.host = "a host before";
  step(Membership::Seeds{{member("a")}});
  hear({.member = other});
  EXPECT_EQ(me_.self().incarnation, 101u);
  hear({.member = other});
  EXPECT_FALSE(me_.is_replaced());
  other.incarnation = 102;  // it has noticed this process
  const auto actions = hear({.member = other});
  EXPECT_TRUE(me_.is_replaced());
  EXPECT_EQ(actions.next_tick_ns, INT64_MAX);
}

TEST_F(OneMachine, AfterALateTickNobodyIsSuspected) {
  step(Membership::Seeds{{member("a"), member("b")}});
  run_for(110 * kMillisecond);  // a ping is on its way
  now_ns_ += 3'600'000 * kMillisecond;
  for (const auto& send : step(Membership::Tick{}).sends) {
    EXPECT_THAT(send.message.updates,
                testing::Each(testing::Field(&MemberUpdate::state, MemberState::kAlive)));
  }
  EXPECT_THAT(ids(), testing::ElementsAre("a", "b", "me"));
}

TEST_F(OneMachine, AfterLeavingNothingHappens) {
  step(Membership::Seeds{{member("a")}});
  const auto actions = step(Membership::Leave{});
  ASSERT_EQ(actions.sends.size(), 1u);
  EXPECT_EQ(actions.sends[0].message.updates.at(0).state, MemberState::kLeft);
  EXPECT_EQ(actions.next_tick_ns, INT64_MAX);
  EXPECT_TRUE(get({.kind = Kind::kPing, .from = member("a"), .probe = 3}).sends.empty());
}

TEST_F(OneMachine, APingForAnotherMemberIsAnsweredWhenTheTargetHasAnswered) {
  step(Membership::Seeds{{member("a"), member("b")}});
  const Message request{
      .kind = Kind::kPingRequest, .from = member("a"), .probe = 7, .target = member("b")};
  auto actions = get(request);
  ASSERT_EQ(actions.sends.size(), 1u);
  EXPECT_EQ(actions.sends[0].host, "host-b");
  const uint32_t number = actions.sends[0].message.probe;
  EXPECT_TRUE(get({.kind = Kind::kAck, .from = member("a"), .probe = number}).sends.empty());
  actions = get({.kind = Kind::kAck, .from = member("b"), .probe = number});
  ASSERT_EQ(actions.sends.size(), 1u);
  EXPECT_EQ(actions.sends[0].host, "host-a");
  EXPECT_EQ(actions.sends[0].message.kind, Kind::kRelayedAck);
  EXPECT_EQ(actions.sends[0].message.probe, 7u);

  get(request);
  EXPECT_EQ(count_kind(run_for(90 * kMillisecond), Kind::kNack), 1u);
}

TEST_F(OneMachine, OthersPingAMemberThatDoesNotAnswer) {
  step(Membership::Seeds{{member("a"), member("b"), member("c"), member("d"), member("e")}});
  const auto sent = run_for(180 * kMillisecond);
  const auto request = std::ranges::find(sent, Kind::kPingRequest, &Message::kind);
  ASSERT_NE(request, sent.end());
  EXPECT_EQ(count_kind(sent, Kind::kPingRequest) % 3, 0u);
}

TEST_F(OneMachine, ARelayedAckIsAsGoodAsAnAck) {
  step(Membership::Seeds{{member("a"), member("b")}});
  for (const int64_t end_ns = now_ns_ + 5'000 * kMillisecond; now_ns_ < end_ns;) {
    for (const Message& sent : run_for(10 * kMillisecond)) {
      if (sent.kind != Kind::kPingRequest) continue;
      get({.kind = Kind::kRelayedAck, .from = member("c"), .probe = sent.probe});
    }
    now_ns_ += 10 * kMillisecond;
  }
  EXPECT_THAT(ids(), testing::IsSupersetOf({"a", "b"}));
}

// The number of different periods whose pings are among these messages of one second.
size_t periods_in_a_second(const std::vector<Message>& sent) {
  std::set<uint32_t> numbers;
  for (const Message& message : sent) {
    if (message.kind == Kind::kPing) numbers.insert(message.probe);
  }
  return numbers.size();
}

TEST_F(OneMachine, WhereNobodyAnswersItGivesTheOthersMoreTime) {
  std::vector<Member> members;
  for (int i = 0; i < 30; ++i) members.push_back(member(fmt::format("{:02}", i)));
  step(Membership::Seeds{members});
  EXPECT_LE(periods_in_a_second(run_for(1'000 * kMillisecond)), 5u);
}

TEST_F(OneMachine, WhatIsGoneIsNotLearnedByComparing) {
  step(Membership::Seeds{{member("a")}});
  hear({.member = member("b"), .state = MemberState::kDead}, Kind::kSync);
  Message digest{.kind = Kind::kDigest, .from = member("a")};
  digest.digest.fill(1);
  for (const auto& send : get(digest).sends) {
    EXPECT_THAT(send.message.updates,
                testing::Not(testing::Contains(
                    testing::Field(&MemberUpdate::member, testing::Field(&Member::id, "b")))));
  }
}

TEST_F(OneMachine, MemoryForWhatComesFromOutsideIsBounded) {
  step(Membership::Seeds{});
  for (size_t i = 0; i < base::kMembersMax + 100; ++i) {
    hear({.member = member(fmt::format("{:05}", i))});
  }
  EXPECT_EQ(me_.members().size(), base::kMembersMax);
  // A dead member's place is free again.
  hear({.member = member("00005"), .state = MemberState::kDead});
  hear({.member = member("new")});
  EXPECT_EQ(me_.members().size(), base::kMembersMax);
  EXPECT_EQ(me_.members().back().id, "new");

  size_t pings = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    pings += get({.kind = Kind::kPingRequest,
                  .from = member("a"),
                  .probe = i,
                  .target = member("00007")})
                 .sends.size();
  }
  EXPECT_LE(pings, 100u);
  // A machine that asks for all members again and again does not get them all each time.
  size_t syncs = 0;
  for (int i = 0; i < 100; ++i) {
    for (const auto& send : get({.kind = Kind::kDigest, .from = member("a")}).sends) {
      if (send.message.kind == Kind::kSync) ++syncs;
      EXPECT_LE(encode_message(send.message).size(), base::kMemberMessageBytesMax);
    }
  }
  EXPECT_LE(syncs, 100u);
}

TEST_F(OneMachine, MembersThatAreGoneAreForgottenAfterAnHour) {
  step(Membership::Seeds{{member("a"), member("b")}});
  hear({.member = member("b"), .state = MemberState::kDead});
  const auto knows_b = [&] {
    Message digest{.kind = Kind::kDigest, .from = member("a")};
    digest.digest.fill(1);
    for (const auto& send : get(digest).sends) {
      for (const auto& update : send.message.updates) {
        if (update.member.id == "b") return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(knows_b());
  run_for(3'500'000 * kMillisecond);
  EXPECT_TRUE(knows_b());
  run_for(200'000 * kMillisecond);
  EXPECT_FALSE(knows_b());
}

TEST_F(OneMachine, SequenceNumbersGrow) {
  uint64_t last = 0;
  step(Membership::Seeds{{member("a"), member("b"), member("c")}});
  for (const Message& message : run_for(1'000 * kMillisecond)) {
    EXPECT_GT(message.sequence, last);
    last = message.sequence;
  }
  EXPECT_GT(last, 0u);
}

}  // namespace
}  // namespace forebay::cache
