// For tests: a host and prep servers in one process, connected over loopback.
#pragma once

#include <functional>

#include "feed/testing/remote_fixture.h"
#include "prep/host/assisted_feed.h"
#include "prep/server/prep_server.h"

namespace forebay::prep {

class PrepTest : public feed::RemoteTest {
 protected:
  static std::string url(const PrepServer& server) {
    return fmt::format("http://127.0.0.1:{}", server.port());
  }
  static std::unique_ptr<PrepServer> serve(const PrepServerOptions& options = {}) {
    return PrepServer::serve(dataset(*fs_), options).value();
  }
  static std::unique_ptr<AssistedFeed> open_with(const PrepOptions& prep) {
    return AssistedFeed::open(dataset(*fs_), options(), prep).value();
  }
  static std::vector<feed::SeenBatch> epochs(feed::Feed& feed, uint64_t first, uint64_t end) {
    std::vector<feed::SeenBatch> out;
    for (uint64_t epoch = first; epoch < end; ++epoch) {
      const Status started = feed.start({.epoch = epoch});
      EXPECT_TRUE(started.ok()) << started.message();
      for (feed::SeenBatch& batch : rest(feed)) out.push_back(std::move(batch));
      EXPECT_EQ(feed.state().epoch, epoch);
    }
    return out;
  }
  // Runs through epochs from `first` on until the condition holds. How many steps prep servers make
  // depends on how busy the machine is.
  static void go_on_until(feed::Feed& feed, uint64_t first, const std::function<bool()>& holds) {
    for (uint64_t epoch = first; !holds(); ++epoch) {
      ASSERT_LT(epoch, first + 100);
      epochs(feed, epoch, epoch + 1);
      if (HasFailure()) return;
    }
  }
  static uint64_t from_servers(const AssistedFeed& feed) {
    uint64_t steps = 0;
    for (const ServerStats& server : feed.prep_stats().servers) steps += server.steps;
    return steps;
  }
};

}  // namespace forebay::prep
