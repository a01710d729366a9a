// For tests: a host and near sides in one process, over loopback.
#pragma once

#include <functional>

#include "feed/testing/remote_fixture.h"
#include "prep/near_side.h"
#include "prep/two_ended_feed.h"

namespace forebay::prep {

class PrepTest : public feed::RemoteTest {
 protected:
  static std::string url(const NearSide& side) {
    return fmt::format("http://127.0.0.1:{}", side.port());
  }
  static std::unique_ptr<NearSide> serve(const NearSideOptions& options = {}) {
    return NearSide::serve(dataset(*fs_), options).value();
  }
  static std::unique_ptr<TwoEndedFeed> open_with(const PrepOptions& prep) {
    return TwoEndedFeed::open(dataset(*fs_), options(), prep).value();
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
  // Goes through epochs from the first one until the condition holds: how much of them near sides
  // make depends on how busy the machine is.
  static void go_on_until(feed::Feed& feed, uint64_t first, const std::function<bool()>& holds) {
    for (uint64_t epoch = first; !holds(); ++epoch) {
      ASSERT_LT(epoch, first + 100);
      epochs(feed, epoch, epoch + 1);
      if (HasFailure()) return;
    }
  }
  static uint64_t from_sides(const TwoEndedFeed& feed) {
    uint64_t steps = 0;
    for (const SideStats& side : feed.prep_stats().sides) steps += side.steps;
    return steps;
  }
};

}  // namespace forebay::prep
