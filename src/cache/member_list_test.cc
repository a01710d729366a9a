#include "cache/member_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/limits.h"

namespace forebay::cache {
namespace {

using base::Code;
using ::testing::HasSubstr;

using Texts = std::vector<std::string>;

const Texts kAddresses = {"127.0.0.1", "10.0.0.2", "::1", "fd00::2"};

// Names lead to the addresses of a table, in their order.
using Names = std::map<std::string, Texts>;

MemberListOptions around(const std::string& own = "", const Names& names = {}) {
  return {.own = own,
          .addresses = kAddresses,
          .find =
              [names](const std::string& name) {
                std::vector<io::FoundAddress> found;
                const auto known = names.find(name);
                if (known == names.end()) return found;
                for (const std::string& text : known->second) found.push_back(io::address_of(text));
                return found;
              },
          .source_to = [](const std::string& address) -> std::string {
            return address.starts_with("10.") ? "10.0.0.2" : "";
          }};
}

std::string error_of(const Texts& entries, const std::string& own = "") {
  const auto list = parse_member_list(entries, around(own));
  return list ? std::string() : list.error().message();
}

TEST(MemberListTest, TheOwnEntryIsFoundByTheMachinesAddresses) {
  for (const Texts& entries :
       {Texts{"10.0.0.1:7400", "10.0.0.2:7401"}, Texts{"10.0.0.2:7401", "10.0.0.1:7400"}}) {
    const auto list = parse_member_list(entries, around());
    ASSERT_TRUE(list.has_value());
    EXPECT_EQ(list->own.id, "10.0.0.2:7401");
    EXPECT_EQ(list->own.host, "10.0.0.2");
    EXPECT_EQ(list->own.port, 7401);
    ASSERT_EQ(list->others.size(), 1u);
    EXPECT_EQ(list->others[0].member,
              (Member{.id = "10.0.0.1:7400", .host = "10.0.0.1", .port = 7400}));
  }
}

TEST(MemberListTest, AnAddressHasOneForm) {
  const auto list = parse_member_list({"[FD00:0:0::2]:7400", "[fd00::1]:7400"}, around());
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
  const auto list = parse_member_list(same, around("127.0.0.1:7401"));
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->own.port, 7401);
  EXPECT_EQ(list->others[0].member.port, 7400);
  const Texts elsewhere = {"192.0.2.1:7400", "192.0.2.2:7400"};
  EXPECT_THAT(error_of(elsewhere), HasSubstr("none of the 2 machines of the list is this one"));
  EXPECT_THAT(error_of(elsewhere), HasSubstr("10.0.0.2"));
  EXPECT_EQ(error_of(elsewhere, "192.0.2.2"), "");
  EXPECT_THAT(error_of(elsewhere, "192.0.2.3"), HasSubstr("none of the 2"));
}

TEST(MemberListTest, ANameIsTheIdWhateverItLeadsTo) {
  // Debian gives a machine's own name the address 127.0.1.1, and other machines its real one.
  const Names here = {{"a", {"10.0.0.1"}}, {"b", {"127.0.1.1"}}};
  const auto list = parse_member_list({"A:7400", "b:7401"}, around("", here));
  ASSERT_TRUE(list.has_value()) << base::status_of(list).message();
  EXPECT_EQ(list->own, (Member{.id = "b:7401", .host = "10.0.0.2", .port = 7401}));
  ASSERT_EQ(list->others.size(), 1u);
  EXPECT_EQ(list->others[0].member, (Member{.id = "a:7400", .port = 7400}));
  EXPECT_EQ(list->others[0].name, "a");
}

TEST(MemberListTest, TheOwnAddressIsOneThatOthersReach) {
  const auto own_host = [](const Names& names, const Texts& entries) {
    const auto list = parse_member_list(entries, around("b", names));
    return list ? list->own.host : list.error().message();
  };
  const Texts both = {"a:7400", "b:7400"};
  EXPECT_EQ(own_host({{"b", {"127.0.1.1", "fd00::2"}}}, both), "fd00::2");
  EXPECT_EQ(own_host({{"b", {"127.0.1.1"}}, {"a", {"10.0.0.9"}}}, both), "10.0.0.2");
  EXPECT_EQ(own_host({{"b", {"127.0.1.1"}}}, {"10.0.0.9:1", "b:7400"}), "10.0.0.2");
  // Nothing is known about the other machine, or about any machine.
  EXPECT_EQ(own_host({{"b", {"127.0.1.1"}}}, both), "10.0.0.2");
  EXPECT_EQ(own_host({}, both), "10.0.0.2");
  // All machines are this one, as in tests.
  EXPECT_EQ(own_host({{"b", {"127.0.0.1"}}, {"a", {"127.0.0.1"}}}, both), "127.0.0.1");
}

TEST(MemberListTest, NamesThatDoNotTellWhichMachineThisIs) {
  const auto message = [](const Names& names, const std::string& own = "") {
    const auto list = parse_member_list({"a:7400", "b:7400"}, around(own, names));
    return list ? std::string() : list.error().message();
  };
  EXPECT_THAT(message({{"a", {"10.0.0.1"}}}),
              HasSubstr("none of the 2 machines of the list is this one"));
  EXPECT_THAT(message({{"a", {"10.0.0.1"}}}),
              HasSubstr("no address is found for b; set `address`"));
  EXPECT_THAT(message({{"a", {"127.0.0.1"}}, {"b", {"127.0.1.1"}}}), HasSubstr("2 of the 2"));
  EXPECT_EQ(message({{"a", {"127.0.0.1"}}, {"b", {"127.0.1.1"}}}, "B:7400"), "");
  EXPECT_EQ(message({}, "b"), "");
}

TEST(MemberListTest, EverythingElseIsRefused) {
  for (const char* text :
       {"", ":", "10.0.0.2", "10.0.0.2:", "10.0.0.2:x", "10.0.0.2:65536", "10.0.0.2:-1",
        "10.0.0.2:7400 ", " 10.0.0.2:7400", "fd00::2:7400", "[10.0.0.2]:7400", "[fd00::2]",
        "[fd00::2:7400", "10.0.0:7400", "10.0.0.2:7400:7400", "[fd00::2%eth0]:1"}) {
    EXPECT_THAT(error_of({text}), HasSubstr("is not HOST:PORT")) << text;
  }
  for (const char* text : {"host:", "host:x", "host:65536", "host:-1"}) {
    EXPECT_THAT(error_of({text}), HasSubstr("is not HOST:PORT")) << text;
  }
  for (const std::string& name :
       {std::string("a..b"), std::string(".a"), std::string("a."), std::string("-a"),
        std::string("a b"), std::string("a/b"), std::string("a.1"), std::string("ä"),
        std::string("a\0b", 3), std::string(254, 'a')}) {
    EXPECT_THAT(error_of({name + ":7400"}), HasSubstr("is not HOST:PORT")) << name;
  }
  EXPECT_THAT(error_of({"host:0"}), HasSubstr("the port must be known"));
  EXPECT_THAT(error_of({"host:7400", "HOST:7400"}), HasSubstr("twice"));
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
