// A host and prep servers in one process, over loopback: the batches are the same as those of a
// feed without prep servers, whatever happens to the servers.
#include "prep/host/assisted_feed.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "io/testing/comes_true.h"
#include "prep/testing/prep_fixture.h"

namespace forebay::prep {
namespace {

using feed::SeenBatch;
using io::testing::comes_true;

class AssistedFeedTest : public PrepTest {
 protected:
  static constexpr uint64_t kEpochs = 4;
};

TEST_F(AssistedFeedTest, BatchesAreTheSame) {
  for (const size_t count : {1u, 2u}) {
    const auto plain = start(dataset(*fs_), options());
    const auto expected = epochs(*plain, 0, kEpochs);
    std::vector<std::unique_ptr<PrepServer>> servers;
    PrepOptions prep;
    for (size_t i = 0; i < count; ++i) prep.servers.push_back(url(*servers.emplace_back(serve())));
    const auto feed = open_with(prep);
    EXPECT_EQ(epochs(*feed, 0, kEpochs), expected);
    go_on_until(*feed, kEpochs, [&] { return from_servers(*feed) > 0; });
    for (const ServerStats& did : feed->prep_stats().servers) EXPECT_TRUE(did.is_up) << did.trouble;
  }
}

TEST_F(AssistedFeedTest, AStartThatFailedCanBeTriedAgain) {
  auto server = PrepServer::serve(dataset(*fs_, "/photos"), {}).value();
  const uint16_t port = server->port();
  const auto feed = open_with({.servers = {url(*server)}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(feed->start({}).code(), base::Code::kInvalid);  // it has another dataset
  }
  server.reset();
  server = serve({.port = port});
  EXPECT_EQ(epochs(*feed, 0, 2), epochs(*start(dataset(*fs_), options()), 0, 2));
}

// The error comes again each time, and no batch is skipped, whoever has made it.
TEST_F(AssistedFeedTest, TooManyBadSamplesAreSaidEachTime) {
  io::MemoryFileSystem copy;
  copy_mixed(copy);
  const auto damaged = dataset(copy);
  for (const uint64_t sample : {20u, 50u, 80u}) {
    const store::Location location = damaged->location(sample);
    copy.content(damaged->chunk_label(location.chunk))[location.offset + location.length / 2] ^= 1;
  }
  feed::FeedOptions wanted = options();
  wanted.bad_samples_max = 0;
  const auto plain = start(damaged, wanted);
  const auto server = PrepServer::serve(damaged, {}).value();
  const auto both = AssistedFeed::open(damaged, wanted, {.servers = {url(*server)}}).value();
  ASSERT_TRUE(both->start({}).ok());
  for (feed::Feed* feed : std::initializer_list<feed::Feed*>{plain.get(), both.get()}) {
    uint64_t good = 0;
    auto batch = feed->next();
    for (; batch; batch = feed->next()) ++good;
    EXPECT_EQ(good * feed::kRemoteBatch, feed->state().position);
    EXPECT_EQ(batch.error().code(), base::Code::kCorrupt);
    const auto again = feed->next();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message(), batch.error().message());
  }
  EXPECT_EQ(both->state().position, plain->state().position);
}

// Each test has a folder, which is removed after it.
class AssistedFilesTest : public AssistedFeedTest {
 protected:
  AssistedFilesTest() { std::filesystem::create_directory(parent_); }
  ~AssistedFilesTest() override { std::filesystem::remove_all(parent_); }
  // The batches in the folder, which may vanish at any time. The lock and the mark are left out.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(parent_)) {
      std::error_code is_gone;
      const bool is_file = entry.is_regular_file(is_gone);
      const uint64_t bytes = is_file ? entry.file_size(is_gone) : 0;
      if (!is_gone && bytes > 1000) out.push_back(entry.path());
    }
    return out;
  }
  PrepServerOptions in_folder() const { return {.folder = parent_}; }
  // Runs a host through the epochs with one server that has these options, and calls `meanwhile`
  // before each step. Returns what the server did.
  ServerStats run(const PrepServerOptions& wanted, const std::function<void()>& meanwhile = [] {}) {
    const auto plain = start(dataset(*fs_), options());
    const auto expected = epochs(*plain, 0, kEpochs);
    const auto server = serve(wanted);
    const auto feed = open_with({.servers = {url(*server)}});
    std::vector<SeenBatch> got;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      EXPECT_TRUE(feed->start({.epoch = epoch}).ok());
      for (;;) {
        meanwhile();
        const auto batch = feed->next();
        EXPECT_TRUE(batch) << batch.error().message();
        if (!batch || *batch == nullptr) break;
        got.push_back(seen(**batch));
      }
    }
    EXPECT_EQ(got, expected);
    if (feed->prep_stats().servers[0].is_up) {
      go_on_until(*feed, kEpochs, [&] { return from_servers(*feed) > 0; });
    }
    return feed->prep_stats().servers[0];
  }

  const std::string parent_ = ::testing::TempDir() + "assisted_files_" + std::to_string(::getpid());
};

TEST_F(AssistedFilesTest, BatchesComeAsFiles) {
  const ServerStats did = run(in_folder());
  EXPECT_TRUE(did.is_up) << did.trouble;
  EXPECT_GT(did.files, 0u);
  EXPECT_GE(did.files, did.steps);
  EXPECT_TRUE(std::filesystem::is_empty(parent_));  // the prep server has ended
}

TEST_F(AssistedFilesTest, FilesThatWereReadDoNotPileUp) {
  const auto server = serve(in_folder());
  const auto feed = open_with({.servers = {url(*server)}});
  go_on_until(*feed, 0, [&] { return feed->prep_stats().servers[0].files > 4; });
  // The last files may still be there, or be kept to be overwritten.
  EXPECT_TRUE(comes_true([&] { return files().size() <= 4; }));
}

TEST_F(AssistedFilesTest, WithoutRoomBatchesAreSent) {
  PrepServerOptions wanted = in_folder();
  wanted.folder_bytes = 1000;
  const ServerStats did = run(wanted);
  EXPECT_EQ(did.files, 0u);
  EXPECT_GT(did.bytes, 0u);
}

TEST_F(AssistedFilesTest, AFolderThatIsNotSeenIsNotUsed) {
  const auto server = serve(in_folder());
  for (const auto& entry : std::filesystem::directory_iterator(parent_)) {
    std::filesystem::rename(entry.path(), parent_ + "/elsewhere");
  }
  const auto feed = open_with({.servers = {url(*server)}});
  go_on_until(*feed, 0, [&] { return from_servers(*feed) > 0; });
  EXPECT_EQ(feed->prep_stats().servers[0].files, 0u);
  EXPECT_GT(feed->prep_stats().servers[0].bytes, 0u);
}

TEST_F(AssistedFilesTest, FilesThatVanishOrAreDamagedChangeNothing) {
  run(in_folder(), [this] {
    for (const auto& path : files()) std::filesystem::remove(path);
  });
  run(in_folder(), [this] {
    std::error_code gone;
    for (const auto& path : files()) std::filesystem::resize_file(path, 999, gone);
  });
  const ServerStats did = run(in_folder(), [this] {
    for (const auto& path : files()) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(500);
      file.put('x').put('y');
    }
  });
  EXPECT_EQ(did.is_up, did.trouble.find("damaged") == std::string::npos) << did.trouble;
}

TEST_F(AssistedFilesTest, AFolderThatCannotBeUsedIsAnError) {
  const auto open = [](const std::string& folder) {
    return PrepServer::serve(dataset(*fs_), {.folder = folder}).error();
  };
  EXPECT_NE(open(parent_ + "/missing").message().find(parent_ + "/missing"), std::string::npos);
  std::ofstream(parent_ + "/file") << "text";
  EXPECT_NE(open(parent_ + "/file").message().find("is not a folder"), std::string::npos);
}

// The figures tell the user what holds the loop back, so they must include the prep servers' steps.
TEST_F(AssistedFeedTest, WaitsAndSamplesOfBothEndsAreCounted) {
  const auto server = serve();
  const auto feed = open_with({.servers = {url(*server)}});
  uint64_t samples = 0;
  int64_t took_ns = 0;
  for (uint64_t epoch = 0; feed->prep_stats().servers[0].steps < 5; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    for (;;) {
      const int64_t begin_ns = io::monotonic_ns();
      const auto batch = feed->next();
      took_ns += io::monotonic_ns() - begin_ns;
      ASSERT_TRUE(batch) << batch.error().message();
      if (*batch == nullptr) break;
      samples += static_cast<uint64_t>(std::ranges::count((*batch)->valid, uint8_t{1}));
    }
  }
  const feed::FeedStats stats = feed->stats();
  EXPECT_EQ(stats.samples, samples);
  EXPECT_GT(stats.wait_ns, took_ns / 2);  // next() does little except waiting
}

TEST_F(AssistedFeedTest, ItGoesOnInTheMiddle) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 3);
  const auto server = serve();
  const auto feed = open_with({.servers = {url(*server)}});
  const uint64_t steps = feed->steps();
  for (const uint64_t step : {7u, 3u, 0u, 11u}) {
    ASSERT_TRUE(feed->start({.epoch = 1, .position = step * feed::kRemoteBatch}).ok());
    for (uint64_t at = step; at < steps; ++at) {
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      EXPECT_EQ(seen(**batch), expected[steps + at]);
      EXPECT_EQ(feed->state().position, (at + 1) * feed::kRemoteBatch);
    }
    EXPECT_EQ(feed->next().value(), nullptr);
  }
}

TEST_F(AssistedFeedTest, ServersDieAndComeBack) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 6);
  auto server = serve();
  const uint16_t port = server->port();
  const auto feed = open_with({.servers = {url(*server)}});
  std::vector<SeenBatch> got;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    for (uint64_t step = 0;; ++step) {
      if (step == 5 && epoch % 2 == 0) server.reset();
      if (step == 5 && epoch % 2 == 1) server = serve({.port = port});
      const auto batch = feed->next();
      ASSERT_TRUE(batch) << batch.error().message();
      if (*batch == nullptr) break;
      got.push_back(seen(**batch));
    }
  }
  EXPECT_EQ(got, expected);
}

TEST_F(AssistedFeedTest, BatchesThatAreHeldTakeMemory) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 1);
  const auto server = serve();
  feed::FeedOptions wanted = options();
  wanted.memory_bytes_max = 8'000'000;
  const auto feed = AssistedFeed::open(dataset(*fs_), wanted, {.servers = {url(*server)}}).value();
  std::vector<std::shared_ptr<const feed::Batch>> held;
  std::vector<SeenBatch> got;
  uint64_t errors = 0;
  for (uint64_t epoch = 0; epoch < 20 && errors == 0; ++epoch) {
    ASSERT_TRUE(feed->start({.epoch = epoch}).ok());
    for (;;) {
      auto batch = feed->next();
      if (!batch) {
        ASSERT_EQ(batch.error().code(), base::Code::kNoMemory);
        ++errors;
        held.clear();
        continue;
      }
      if (*batch == nullptr) break;
      if (epoch == 0) got.push_back(seen(**batch));
      held.push_back(std::move(*batch));
    }
  }
  EXPECT_GT(errors, 0u);
  EXPECT_EQ(got, expected);
}

TEST_F(AssistedFeedTest, WithoutAnyServerTheHostIsAlone) {
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 2);
  const auto feed = open_with({.servers = {"http://127.0.0.1:9"}});
  EXPECT_EQ(epochs(*feed, 0, 2), expected);
  EXPECT_FALSE(feed->prep_stats().servers[0].is_up);
}

TEST_F(AssistedFeedTest, WhatCannotWorkIsSaidAtOnce) {
  const auto server = serve();
  const auto open = [](const feed::FeedOptions& wanted, const std::string& place,
                       const std::string& path = "/mixed") {
    const auto feed = AssistedFeed::open(dataset(*fs_, path), wanted, {.servers = {place}});
    return feed ? (*feed)->start({}).message() : feed.error().message();
  };
  EXPECT_EQ(open(options(), url(*server)), "");
  EXPECT_NE(open(options(), url(*server), "/photos").find("another dataset"), std::string::npos);
  for (const char* place : {"storage-7:7311", "http://", "http://localhost", "http://localhost:0",
                            "http://localhost:99999", "http://a@b:1/", "ftp://localhost:1"}) {
    EXPECT_NE(open(options(), place).find("does not name a prep server"), std::string::npos)
        << place;
  }
  EXPECT_NE(open(options(), "http://192.0.2.7:7311").find("https://"), std::string::npos);
  feed::FeedOptions weighted = options();
  weighted.order = feed::Weighted{};
  EXPECT_NE(open(weighted, url(*server)), "");
}

TEST_F(AssistedFeedTest, ServersWhoseBatchesNeedMoreThanTheMemoryAreRefused) {
  feed::FeedOptions wanted = options();
  wanted.memory_bytes_max = 20'000'000;
  PrepOptions prep;
  const auto status = [&] {
    return base::status_of(AssistedFeed::open(dataset(*fs_), wanted, prep));
  };
  prep.servers.assign(2, "http://127.0.0.1:9");
  EXPECT_TRUE(status().ok()) << status().message();
  prep.servers.assign(64, "http://127.0.0.1:9");
  EXPECT_EQ(status().code(), base::Code::kInvalid);
  EXPECT_NE(status().message().find("name fewer prep servers"), std::string::npos);
}

TEST_F(AssistedFeedTest, BySecretsAndTls) {
  const PrepServerOptions secret{.secret = io::Secret("the secret of this test")};
  const auto server = serve(secret);
  const std::string place = fmt::format("https://localhost:{}", server->port());
  const auto plain = start(dataset(*fs_), options());
  const auto expected = epochs(*plain, 0, 2);
  PrepOptions prep{.servers = {place}, .secret = secret.secret};
  {
    const auto feed = open_with(prep);
    EXPECT_EQ(epochs(*feed, 0, 2), expected);
    go_on_until(*feed, 2, [&] { return from_servers(*feed) > 0; });
  }
  prep.secret = io::Secret("another secret of it");
  const auto feed = open_with(prep);
  EXPECT_FALSE(feed->prep_stats().servers[0].is_up);
  EXPECT_EQ(epochs(*feed, 0, 2), expected);
}

}  // namespace
}  // namespace forebay::prep
