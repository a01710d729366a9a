#include "io/serve/own_host.h"

#include <gtest/gtest.h>

namespace forebay::io::serve {
namespace {

TEST(OwnHost, NumbersLocalhostAndGivenNamesAreTaken) {
  for (const char* host : {"", "127.0.0.1", "127.0.0.1:80", "[::1]:7311", "[::1]", "localhost",
                           "LOCALHOST:9000", "10.1.2.3:7", "node17.cluster:9100"}) {
    EXPECT_TRUE(is_own_request(host, "", {"node17.Cluster"})) << host;
  }
  EXPECT_TRUE(is_own_request("localhost:1", "http://127.0.0.1:1"));
}

TEST(OwnHost, NamesOfOtherSitesAreRefused) {
  for (const char* host :
       {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example",
        "node17.cluster", "[evil]", "[", ":80", "0x7f.1"}) {
    EXPECT_FALSE(is_own_request(host, "")) << host;
  }
  for (const char* origin :
       {"http://evil.example", "null", "https://evil.example:1", "localhost"}) {
    EXPECT_FALSE(is_own_request("127.0.0.1", origin)) << origin;
  }
}

}  // namespace
}  // namespace forebay::io::serve
