#include "io/mesh_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::io {
namespace {

using ::testing::ElementsAre;

TEST(MeshSockets, OthersReachNoLoopbackAddressThatHasThisMachinesName) {
  const std::vector<Interface> all = {{.name = "lo", .address = "127.0.0.1", .is_loopback = true},
                                      {.name = "eth0", .address = "10.0.0.5"},
                                      {.name = "eth1", .address = "fd00::5"}};
  EXPECT_THAT(best_first("first", "127.0.0.1", all),
              ElementsAre("10.0.0.5", "fd00::5", "127.0.0.1"));
  EXPECT_THAT(best_first("first", "::1", all), ElementsAre("10.0.0.5", "fd00::5", "::1"));
  for (const char* const host : {"localhost", "127.0.0.1", "127.0.1.1"}) {
    EXPECT_THAT(best_first(host, "127.0.0.1", all),
                ElementsAre("127.0.0.1", "10.0.0.5", "fd00::5"));
  }
  EXPECT_THAT(best_first("first", "fd00::5", all), ElementsAre("fd00::5", "10.0.0.5"));
  EXPECT_THAT(best_first("unknown", "", all), ElementsAre("10.0.0.5", "fd00::5"));
  EXPECT_THAT(best_first("unknown", "", {all[0]}), ElementsAre("127.0.0.1"));
}

}  // namespace
}  // namespace forebay::io
