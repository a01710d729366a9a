#include "cache/members/roster.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/testing/comes_true.h"

namespace forebay::cache {
namespace {

Message message(uint64_t incarnation, uint64_t sequence) {
  return {.from = {.id = "one", .incarnation = incarnation}, .sequence = sequence};
}

TEST(ReplaysTest, EachMessageIsTakenOnce) {
  Replays replays;
  for (const uint64_t sequence : {5u, 6u, 9u, 7u, 8u, 200u, 190u, 137u}) {
    EXPECT_TRUE(replays.take(message(3, sequence))) << sequence;
  }
  for (const uint64_t sequence : {5u, 6u, 7u, 8u, 9u, 200u, 190u, 137u, 135u, 0u}) {
    EXPECT_FALSE(replays.take(message(3, sequence))) << sequence;
  }
  EXPECT_TRUE(replays.take(message(3, 199)));
  EXPECT_TRUE(replays.take(message(3, 136)));
}

TEST(ReplaysTest, AProcessThatTakesOverCountsAnew) {
  Replays replays;
  EXPECT_TRUE(replays.take(message(3, 100)));
  EXPECT_TRUE(replays.take(message(4, 101)));  // the same process, which has refuted something
  EXPECT_FALSE(replays.take(message(4, 100)));
  EXPECT_TRUE(replays.take(message(9, 1)));
  EXPECT_TRUE(replays.take(message(9, 2)));
  EXPECT_FALSE(replays.take(message(9, 1)));
  // New messages of the replaced process are taken, but not repeated ones.
  EXPECT_FALSE(replays.take(message(4, 101)));
  EXPECT_FALSE(replays.take(message(3, 100)));
  EXPECT_TRUE(replays.take(message(4, 102)));
  EXPECT_FALSE(replays.take(message(4, 102)));
  EXPECT_FALSE(replays.take(message(9, 2)));
}

// A machine of a job, on loopback.
class Machine {
 public:
  Machine(const std::string& id, const io::Secret& secret, uint64_t incarnation = 1) {
    auto datagrams = io::Datagrams::open("127.0.0.1", 0, secret).value();
    self_ = {.id = id,
             .host = "127.0.0.1",
             .port = datagrams->port(),
             .room_bytes = 1,
             .incarnation = incarnation};
    roster_ = Roster::open(self_, std::move(datagrams), std::vector<Listed>(),
                           [this](const Member&, const std::vector<Member>& members) {
                             count_ = members.size();
                           })
                  .value();
    roster_->start();
  }
  const Member& self() const { return self_; }
  Roster& roster() { return *roster_; }
  // Whether the machine comes to see this number of members in time.
  bool sees(size_t count) const {
    return io::testing::comes_true([&] { return count_ == count; });
  }

 private:
  Member self_;
  std::atomic<size_t> count_ = 1;
  std::unique_ptr<Roster> roster_;
};

TEST(RosterTest, MachinesFindEachOtherAndNoticeWhoIsGone) {
  const io::Secret secret("the secret of this job");
  std::vector<std::unique_ptr<Machine>> machines;
  for (int i = 0; i < 5; ++i) {
    machines.push_back(std::make_unique<Machine>(std::to_string(i), secret));
    if (i > 0) machines.back()->roster().add({machines.front()->self()});
  }
  for (const auto& machine : machines) EXPECT_TRUE(machine->sees(5));
  machines.pop_back();  // it tells nobody
  for (const auto& machine : machines) EXPECT_TRUE(machine->sees(4));
  machines.back()->roster().leave();
  machines.pop_back();
  for (const auto& machine : machines) EXPECT_TRUE(machine->sees(3));
}

TEST(RosterTest, OfTwoProcessesWithOneIdOneGivesUpAndSaysSo) {
  const io::Secret secret("the secret of this job");
  Machine other("other", secret);
  Machine first("same", secret, 1);
  Machine second("same", secret, 2);
  for (Machine* const one : {&first, &second}) one->roster().add({other.self()});
  const auto replaced = [&] {
    return first.roster().is_replaced() + second.roster().is_replaced();
  };
  EXPECT_TRUE(io::testing::comes_true([&] { return replaced() == 1; }));
  EXPECT_TRUE(other.sees(2));
}

TEST(RosterTest, WhoHasAnotherSecretIsNoMember) {
  Machine one("one", io::Secret("the secret of this job"));
  Machine other("other", io::Secret("the secret of that job"));
  other.roster().add({one.self()});
  EXPECT_TRUE(other.sees(2));  // the test told it so
  EXPECT_TRUE(other.sees(1));
  EXPECT_TRUE(one.sees(1));
}

}  // namespace
}  // namespace forebay::cache
