// Policies that change the order of an epoch's steps: each step comes once and is the same as
// without prep servers, whatever happens to the servers.
#include <unistd.h>

#include <filesystem>
#include <map>

#include "prep/testing/prep_fixture.h"

namespace forebay::prep {
namespace {

using feed::FeedState;
using feed::SeenBatch;

struct Way {
  PolicyKind policy = PolicyKind::kInterleave;
  bool any_order = false;
};
constexpr Way kWays[] = {{PolicyKind::kInterleave, false},
                         {PolicyKind::kInterleave, true},
                         {PolicyKind::kMte, true},
                         {PolicyKind::kWrr, true}};

class AnyOrderTest : public PrepTest {
 protected:
  static void SetUpTestSuite() {
    RemoteTest::SetUpTestSuite();
    const auto plain = start(dataset(*fs_), options());
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      EXPECT_TRUE(plain->start({.epoch = epoch}).ok());
      expected_.push_back(rest(*plain));
    }
  }
  static std::unique_ptr<AssistedFeed> open(const Way& way, std::vector<std::string> servers) {
    return open_with(
        {.servers = std::move(servers), .policy = way.policy, .any_order = way.any_order});
  }

  // The steps of one epoch that were given so far.
  struct Epoch {
    uint64_t number = 0;
    std::map<uint64_t, SeenBatch> steps = {};

    // Takes `count` steps, or all up to the end.
    void take(feed::Feed& feed, uint64_t count = UINT64_MAX) {
      for (; count > 0; --count) {
        const auto batch = feed.next();
        ASSERT_TRUE(batch) << batch.error().message();
        if (*batch == nullptr) return;
        EXPECT_EQ((*batch)->epoch, number);
        EXPECT_TRUE(steps.emplace((*batch)->step, seen(**batch)).second)
            << "step " << (*batch)->step << " came twice";
      }
    }
    void expect_whole() const {
      ASSERT_EQ(steps.size(), expected_[number].size());
      for (const auto& [step, batch] : steps) {
        EXPECT_TRUE(batch == expected_[number][step]) << "step " << step << " of epoch " << number;
      }
    }
  };

  static constexpr uint64_t kEpochs = 4;
  static inline std::vector<std::vector<SeenBatch>> expected_;
};

TEST_F(AnyOrderTest, EachStepComesOnceAndIsTheSame) {
  for (const Way& way : kWays) {
    for (const size_t count : {1u, 2u}) {
      std::vector<std::unique_ptr<PrepServer>> servers;
      std::vector<std::string> urls;
      for (size_t i = 0; i < count; ++i) urls.push_back(url(*servers.emplace_back(serve())));
      const auto feed = open(way, urls);
      for (uint64_t number = 0; number < kEpochs; ++number) {
        ASSERT_TRUE(feed->start({.epoch = number}).ok());
        Epoch epoch{number};
        epoch.take(*feed);
        epoch.expect_whole();
        EXPECT_EQ(feed->state().position, 96u);
        EXPECT_TRUE(feed->state().over.empty());
      }
      uint64_t steps = feed->prep_stats().host_steps;
      for (const ServerStats& server : feed->prep_stats().servers) {
        EXPECT_TRUE(server.is_up) << server.trouble;
        EXPECT_EQ(server.trouble, "");
        steps += server.steps;
      }
      EXPECT_EQ(steps, kEpochs * 12);
    }
  }
}

TEST_F(AnyOrderTest, PrepServersAreUsed) {
  const std::string folder = testing::TempDir() + "any_order_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  for (const auto& [way, parent] : {std::pair(Way{PolicyKind::kMte, true}, std::string()),
                                    {Way{PolicyKind::kMte, true}, folder},
                                    {Way{PolicyKind::kWrr, true}, folder}}) {
    const auto server = serve({.folder = parent});
    const auto feed = open(way, {url(*server)});
    for (uint64_t number = 0; feed->prep_stats().servers[0].steps < 3; ++number) {
      ASSERT_LT(number, 100u);
      ASSERT_TRUE(feed->start({.epoch = number}).ok());
      Epoch epoch{number};
      epoch.take(*feed);
    }
    EXPECT_GT(feed->prep_stats().servers[0].checked, 0u);
    EXPECT_EQ(feed->prep_stats().servers[0].files > 0, !parent.empty());
  }
  EXPECT_TRUE(std::filesystem::remove(folder));  // it is empty
}

TEST_F(AnyOrderTest, AStateGoesOnWithAnyOtherPolicyAndWithout) {
  const auto server = serve();
  uint64_t out_of_turn = 0;
  for (const Way& way : kWays) {
    for (const uint64_t cut : {1u, 6u, 11u}) {
      const auto feed = open(way, {url(*server)});
      ASSERT_TRUE(feed->start({.epoch = 1}).ok());
      Epoch before{1};
      before.take(*feed, cut);
      const FeedState state = feed::decode_state(feed::encode_state(feed->state())).value();
      out_of_turn += state.over.empty() ? 0 : 1;
      const auto expect_the_rest = [&](feed::Feed& other) {
        ASSERT_TRUE(other.start(state).ok());
        Epoch epoch = before;
        epoch.take(other);
        epoch.expect_whole();
        ASSERT_TRUE(other.start({.epoch = 2}).ok());
        Epoch next{2};
        next.take(other);
        next.expect_whole();
      };
      expect_the_rest(*feed::Feed::open(dataset(*fs_), options()).value());
      expect_the_rest(*open(kWays[cut % 4], {url(*server)}));
      expect_the_rest(*feed);
    }
  }
  EXPECT_GT(out_of_turn, 0u);
}

TEST_F(AnyOrderTest, ServersDieAndComeBack) {
  uint64_t steps = 0;  // made by servers; few, if they are down when they are needed
  for (size_t turn = 0; turn < std::size(kWays) || steps == 0; ++turn) {
    ASSERT_LT(turn, 100u);
    const Way& way = kWays[turn % std::size(kWays)];
    auto server = serve();
    const uint16_t port = server->port();
    const auto feed = open(way, {url(*server)});
    for (uint64_t number = 0; number < kEpochs; ++number) {
      ASSERT_TRUE(feed->start({.epoch = number}).ok());
      Epoch epoch{number};
      epoch.take(*feed, 3 + number);  // with kMte the server keeps steps now
      if (number % 2 == 0) {
        server.reset();
      } else {
        server = serve({.port = port});
      }
      epoch.take(*feed);
      epoch.expect_whole();
    }
    steps += from_servers(*feed);
  }
}

TEST_F(AnyOrderTest, AnEpochThatIsLeftEarlyLeavesNothing) {
  for (const Way& way : kWays) {
    const auto server = serve();
    const auto feed = open(way, {url(*server)});
    for (uint64_t number = 0; number < kEpochs; ++number) {
      ASSERT_TRUE(feed->start({.epoch = number}).ok());
      Epoch left{number};
      left.take(*feed, number);
      ASSERT_TRUE(feed->start({.epoch = number}).ok());
      Epoch epoch{number};
      epoch.take(*feed);
      epoch.expect_whole();
    }
  }
}

// A prep server that can keep two steps, besides two in progress.
TEST_F(AnyOrderTest, LittleMemoryStopsNoServer) {
  const uint64_t batch = uint64_t{feed::kRemoteBatch} * 64 * 64 * 3;
  PrepServerOptions little{.threads = 1, .job_memory_bytes = 8'000'000};
  std::unique_ptr<PrepServer> server = serve(little);
  const auto feed = open({PolicyKind::kMte, true}, {url(*server)});
  EXPECT_GT(little.job_memory_bytes, 4 * batch);
  for (uint64_t number = 0; number < kEpochs; ++number) {
    ASSERT_TRUE(feed->start({.epoch = number}).ok());
    Epoch epoch{number};
    epoch.take(*feed);
    epoch.expect_whole();
  }
  go_on_until(*feed, kEpochs, [&] { return from_servers(*feed) > 0; });
  const ServerStats did = feed->prep_stats().servers[0];
  EXPECT_TRUE(did.is_up) << did.trouble;
}

TEST_F(AnyOrderTest, HostileStatesAreRefused) {
  const auto server = serve();
  const auto plain = feed::Feed::open(dataset(*fs_), options()).value();
  for (const Way& way : kWays) {
    const auto feed = open(way, {url(*server)});
    const std::vector<std::vector<feed::Positions>> wrong = {
        {{16, 16}},            // nothing
        {{24, 16}},            // descends
        {{8, 16}},             // begins at the state's position
        {{0, 8}},              // before the state's position
        {{17, 24}},            // no step begins there
        {{16, 23}},            // no step ends there
        {{16, 104}},           // after the end
        {{96, 104}},           //
        {{16, UINT64_MAX}},    //
        {{16, 24}, {16, 24}},  // the same step twice
        {{32, 40}, {16, 24}},  // not ascending
        {{16, 32}, {24, 40}},  // overlapping
        std::vector<feed::Positions>(100'000, {16, 24}),
    };
    for (const auto& over : wrong) {
      const FeedState state{.position = 8, .over = over};
      EXPECT_EQ(feed->start(state).code(), base::Code::kInvalid);
      EXPECT_EQ(plain->start(state).code(), base::Code::kInvalid);
    }
    const FeedState right{.position = 8, .over = {{16, 24}, {80, 96}}};
    ASSERT_TRUE(feed->start(right).ok());
    Epoch epoch{0};
    epoch.take(*feed);
    EXPECT_EQ(epoch.steps.size(), 8u);
    EXPECT_FALSE(epoch.steps.contains(0) || epoch.steps.contains(2) || epoch.steps.contains(10));
  }
}

TEST_F(AnyOrderTest, ItIsForOneProcess) {
  feed::FeedOptions shared = options();
  shared.world_size = 2;
  const PrepOptions prep{.servers = {"http://127.0.0.1:9"}, .policy = PolicyKind::kWrr};
  const auto feed = AssistedFeed::open(dataset(*fs_), shared, prep);
  ASSERT_FALSE(feed);
  EXPECT_EQ(feed.error().code(), base::Code::kInvalid);
  EXPECT_NE(feed.error().message().find("one process"), std::string::npos);
}

}  // namespace
}  // namespace forebay::prep
