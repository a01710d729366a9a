#include "io/find_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::io {
namespace {

using ::testing::HasSubstr;

TEST(FindAddress, OfLocalhostAndOfAddresses) {
  const auto local = find_addresses("localhost");
  ASSERT_TRUE(local.has_value());
  for (const FoundAddress& found : *local) EXPECT_TRUE(found.is_loopback) << found.text;
  EXPECT_EQ(find_address("192.0.2.7").value(), (FoundAddress{.text = "192.0.2.7"}));
  EXPECT_EQ(find_addresses("::1").value(),
            (std::vector<FoundAddress>{{.text = "::1", .is_loopback = true}}));
  EXPECT_EQ(address_of("127.0.1.1"), (FoundAddress{.text = "127.0.1.1", .is_loopback = true}));
}

TEST(FindAddress, AnUnknownNameIsNamed) {
  const auto found = find_addresses("no such host");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), base::Code::kUnavailable);
  EXPECT_THAT(found.error().message(), HasSubstr("the host no such host"));
}

TEST(FindAddress, LoopbackIsReachedFromLoopback) {
  EXPECT_EQ(source_address_to("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(source_address_to("not an address"), "");
}

}  // namespace
}  // namespace forebay::io
