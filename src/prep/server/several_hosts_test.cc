// Several hosts of one prep server: each has a job of its own, which ends with the host.
#include <unistd.h>

#include <filesystem>

#include "io/testing/comes_true.h"
#include "prep/testing/prep_fixture.h"

namespace forebay::prep {
namespace {

using io::testing::comes_true;

class SeveralHostsTest : public PrepTest {
 protected:
  static void SetUpTestSuite() {
    RemoteTest::SetUpTestSuite();
    expected_ = epochs(*start(dataset(*fs_), options()), 0, 2);
  }
  static inline std::vector<feed::SeenBatch> expected_;
};

// Processes that train on the same data with the same seed, like in a search for a learning rate.
TEST_F(SeveralHostsTest, HostsWithEqualOptionsHaveAJobEach) {
  const std::string parent = ::testing::TempDir() + "several_hosts_" + std::to_string(::getpid());
  std::filesystem::create_directory(parent);
  {
    const auto server = serve({.folder = parent});
    for (const PolicyKind policy : {PolicyKind::kInterleave, PolicyKind::kMte}) {
      const PrepOptions prep{.servers = {url(*server)}, .policy = policy};
      const auto first = open_with(prep);
      const auto second = open_with(prep);
      ASSERT_TRUE(first->start({}).ok());
      ASSERT_TRUE(second->start({}).ok());
      EXPECT_EQ(server->stats().jobs, 2u);
      for (;;) {
        const auto one = first->next();
        const auto other = second->next();
        ASSERT_TRUE(one) << one.error().message();
        ASSERT_TRUE(other) << other.error().message();
        EXPECT_EQ(*one == nullptr, *other == nullptr);
        if (*one == nullptr || *other == nullptr) break;
        EXPECT_EQ(seen(**one), expected_[(*one)->step]);
        EXPECT_EQ(seen(**other), expected_[(*other)->step]);
      }
      for (const auto* feed : {&first, &second}) {
        const ServerStats did = (*feed)->prep_stats().servers[0];
        EXPECT_TRUE(did.is_up) << did.trouble;
        EXPECT_EQ(did.trouble, "");
      }
    }
  }
  std::filesystem::remove_all(parent);
}

TEST_F(SeveralHostsTest, AJobEndsWithItsHost) {
  const auto server = serve({.jobs = 1});
  const PrepOptions prep{.servers = {url(*server)}};
  auto first = open_with(prep);
  EXPECT_EQ(epochs(*first, 0, 2), expected_);
  EXPECT_EQ(server->stats().jobs, 1u);
  const auto second = open_with(prep);
  EXPECT_EQ(epochs(*second, 0, 1).size(), expected_.size() / 2);
  const ServerStats refused = second->prep_stats().servers[0];
  EXPECT_FALSE(refused.is_up);
  EXPECT_NE(refused.trouble.find("serves 1 of at most 1 loaders"), std::string::npos)
      << refused.trouble;
  first.reset();
  // The host asks the prep server again from time to time.
  EXPECT_TRUE(comes_true([&] { return second->prep_stats().servers[0].is_up; }, 60));
  EXPECT_EQ(epochs(*second, 0, 2), expected_);
}

}  // namespace
}  // namespace forebay::prep
