#include "cache/member_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"

namespace forebay::cache {
namespace {

using base::Code;
using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

const Texts kAddresses = {"127.0.0.1", "10.0.0.2", "::1", "fd00::2"};

std::string error_of(const Texts& entries, const std::string& own = "") {
  const auto list = parse_member_list(entries, own, kAddresses);
  return list ? std::string() : list.error().message();
}

TEST(MemberListTest, TheOwnEntryIsFoundByTheMachinesAddresses) {
  for (const Texts& entries :
       {Texts{"10.0.0.1:7400", "10.0.0.2:7401"}, Texts{"10.0.0.2:7401", "10.0.0.1:7400"}}) {
    const auto list = parse_member_list(entries, "", kAddresses);
    ASSERT_TRUE(list.has_value());
    EXPECT_EQ(list->own.id, "10.0.0.2:7401");
    EXPECT_EQ(list->own.host, "10.0.0.2");
    EXPECT_EQ(list->own.port, 7401);
    ASSERT_EQ(list->others.size(), 1u);
    EXPECT_EQ(list->others[0], (Member{.id = "10.0.0.1:7400", .host = "10.0.0.1", .port = 7400}));
  }
}

TEST(MemberListTest, AnAddressHasOneForm) {
  const auto list = parse_member_list({"[FD00:0:0::2]:7400", "[fd00::1]:7400"}, "", kAddresses);
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->own.id, "[fd00::2]:7400");
  EXPECT_EQ(list->own.host, "fd00::2");
  EXPECT_EQ(place_of(list->own.host, list->own.port), list->own.id);
  EXPECT_THAT(error_of({"[fd00::2]:7400", "[fd00:0::2]:7400"}), HasSubstr("twice"));
}

TEST(MemberListTest, WhereItIsNotPlainTheUserSays) {
  const Texts same = {"127.0.0.1:7400", "127.0.0.1:7401"};
  EXPECT_THAT(error_of(same), HasSubstr("2 of the 2 machines of the list may be this one"));
  EXPECT_THAT(error_of(same, "127.0.0.1"), HasSubstr("2 of the 2"));
  const auto list = parse_member_list(same, "127.0.0.1:7401", kAddresses);
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->own.port, 7401);
  EXPECT_EQ(list->others[0].port, 7400);
  const Texts elsewhere = {"192.0.2.1:7400", "192.0.2.2:7400"};
  EXPECT_THAT(error_of(elsewhere), HasSubstr("none of the 2 machines of the list is this one"));
  EXPECT_THAT(error_of(elsewhere), HasSubstr("10.0.0.2"));
  EXPECT_EQ(error_of(elsewhere, "192.0.2.2"), "");
  EXPECT_THAT(error_of(elsewhere, "192.0.2.3"), HasSubstr("none of the 2"));
}

TEST(MemberListTest, EverythingElseIsRefused) {
  for (const char* text :
       {"", ":", "10.0.0.2", "10.0.0.2:", "10.0.0.2:x", "10.0.0.2:65536", "10.0.0.2:-1",
        "10.0.0.2:7400 ", " 10.0.0.2:7400", "host:7400", "fd00::2:7400", "[10.0.0.2]:7400",
        "[fd00::2]", "[fd00::2:7400", "10.0.0:7400", "10.0.0.2:7400:7400", "[fd00::2%eth0]:1"}) {
    EXPECT_THAT(error_of({text}), HasSubstr("is not ADDRESS:PORT")) << text;
  }
  EXPECT_THAT(error_of({"10.0.0.2:0"}), HasSubstr("the port must be known"));
  EXPECT_THAT(error_of({"10.0.0.2:7400", "10.0.0.2:7400"}), HasSubstr("twice"));
  EXPECT_THAT(error_of({}), HasSubstr("none of the 0"));
  EXPECT_THAT(error_of(Texts(base::kMembersMax + 1, "10.0.0.2:7400")), HasSubstr("4097"));
}

TEST(MemberListTest, MachinesKnowEachOtherByASecretAlone) {
  CacheOptions options;
  for (const char* const own : {"192.0.2.1", "127.0.0.1"}) {
    const Texts entries = {fmt::format("{}:7400", own), "192.0.2.2:7400"};
    EXPECT_EQ(use_member_list(entries, own, &options).code(), Code::kInvalid);
  }
  options.secret = io::Secret("a secret of this test");
  ASSERT_TRUE(use_member_list({"192.0.2.1:7400", "192.0.2.2:7400"}, "192.0.2.1", &options).ok());
  EXPECT_EQ(options.address, "192.0.2.1");
  EXPECT_EQ(options.port, 7400);
  EXPECT_EQ(options.id, "192.0.2.1:7400");
  EXPECT_EQ(options.listed.size(), 1u);
}

}  // namespace
}  // namespace forebay::cache
