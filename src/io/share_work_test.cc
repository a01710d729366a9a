#include "io/share_work.h"

#include <gmock/gmock.h>

#include <atomic>
#include <new>
#include <vector>

#include "base/mutex.h"

namespace forebay::io {
namespace {

using base::Code;
using testing::Each;
using testing::Le;

TEST(ShareWork, DoesEachNumberOnceByFewerThreadsThanAsked) {
  for (const uint64_t count : {0U, 1U, 7U, 64U, 1000U}) {
    for (const uint64_t step : {1U, 3U, 64U}) {
      for (const size_t threads : {1U, 2U, 16U}) {
        base::Mutex mutex;
        std::vector<int> done(count, 0);
        std::vector<size_t> by;
        const Status status = share_work(count, step, threads, [&](auto begin, auto end, auto i) {
          base::MutexLock lock(mutex);
          EXPECT_LE(end - begin, step);
          EXPECT_EQ(begin % step, 0U);
          for (uint64_t at = begin; at < end; ++at) ++done[at];
          by.push_back(i);
          return Status();
        });
        EXPECT_TRUE(status.ok());
        EXPECT_THAT(done, Each(1));
        EXPECT_THAT(by, Each(Le(threads - 1)));
      }
    }
  }
}

TEST(ShareWork, EndsAtTheFirstErrorAndSaysIt) {
  for (const size_t threads : {1U, 4U}) {
    std::atomic<uint64_t> begun = 0;
    const Status status =
        share_work(1'000'000, 1, threads, [&](uint64_t begin, auto, auto) -> Status {
          ++begun;
          if (begin < 10) return {};
          return base::Status(Code::kCorrupt, "the tenth");
        });
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.message(), "the tenth");
    EXPECT_LE(begun, 10 + threads);
  }
}

TEST(ShareWork, NoMemoryIsAnError) {
  const Status status =
      share_work(3, 1, 2, [](auto, auto, auto) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), Code::kNoMemory);
}

}  // namespace
}  // namespace forebay::io
