#include "cache/members/members.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace forebay::cache {
namespace {

base::Sha256 file(int number) { return base::sha256(base::as_bytes(std::to_string(number))); }

std::vector<Member> some_members(const std::vector<uint64_t>& rooms) {
  std::vector<Member> members;
  for (size_t i = 0; i < rooms.size(); ++i) {
    members.push_back({.id = "machine " + std::to_string(i), .room_bytes = rooms[i]});
  }
  return members;
}

TEST(MembersTest, EachHoldsAShareInProportionToItsRoom) {
  const auto members = some_members({100, 200, 0, 700});
  std::vector<double> held(members.size());
  constexpr int kPieces = 20'000;
  for (int i = 0; i < kPieces; ++i) {
    ++held[owner_of(file(i / 4), static_cast<uint64_t>(i % 4), members)];
  }
  EXPECT_EQ(held[2], 0);
  // Five times the standard deviation of a share.
  for (size_t i = 0; i < members.size(); ++i) {
    const double share = static_cast<double>(members[i].room_bytes) / 1000;
    EXPECT_NEAR(held[i] / kPieces, share, 5 * std::sqrt(share * (1 - share) / kPieces)) << i;
  }
}

TEST(MembersTest, WhoLeavesMovesOnlyItsOwnShare) {
  const auto members = some_members({100, 200, 300, 100});
  auto fewer = members;
  fewer.erase(fewer.begin() + 1);
  for (int i = 0; i < 2'000; ++i) {
    const Member& before = members[owner_of(file(i), 0, members)];
    const Member& after = fewer[owner_of(file(i), 0, fewer)];
    if (before.id == "machine 1") continue;
    EXPECT_EQ(before.id, after.id);
  }
}

TEST(MembersTest, TheOrderOfTheListDoesNotMatter) {
  auto members = some_members({5, 5, 5, 9});
  auto other = members;
  std::reverse(other.begin(), other.end());
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(members[owner_of(file(i), 7, members)].id, other[owner_of(file(i), 7, other)].id);
  }
}

TEST(MembersTest, NobodyWithRoomOwnsNothing) {
  EXPECT_EQ(owner_of(file(0), 0, {}), SIZE_MAX);
  EXPECT_EQ(owner_of(file(0), 0, some_members({0, 0})), SIZE_MAX);
}

}  // namespace
}  // namespace forebay::cache
