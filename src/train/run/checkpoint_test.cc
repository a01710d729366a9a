#include "train/run/checkpoint.h"

#include <gtest/gtest.h>

#include "train/testing/bench.h"

namespace forebay::train {
namespace {

TEST(Run, DamagedNewestCheckpointGivesWayToTheOneBefore) {
  const auto expected = whole_run();
  for (const bool torn : {false, true}) {
    io::MemoryFileSystem fs;
    interrupted_run(fs, 6);
    const auto paths = *list_checkpoints(fs, "out");
    ASSERT_EQ(paths.size(), 2U);
    base::ByteVector& newest = fs.content(paths[0]);
    if (torn) {
      newest.resize(newest.size() / 2);
    } else {
      newest[newest.size() - 5] ^= 1;
    }
    Bench probe(fs);
    const auto restored =
        restore_checkpoint(fs, "out", probe.options.fingerprint, probe.learner->state());
    ASSERT_TRUE(restored) << restored.error().message();
    EXPECT_EQ((*restored)->path, paths[1]);
    EXPECT_EQ((*restored)->damaged.size(), 1U);
    Bench bench(fs);
    bench.options.resume = true;
    ASSERT_TRUE(bench.run());
    expect_same(bench.learner->state(), expected);
  }
}

}  // namespace
}  // namespace forebay::train
