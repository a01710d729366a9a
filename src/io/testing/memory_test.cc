#include "io/testing/memory.h"

#include <gtest/gtest.h>

namespace forebay::io {
namespace {

using base::as_bytes;
using base::as_text;

TEST(MemoryFileSystem, PowerLossKeepsWhatWasSynced) {
  MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_dirs("/d").ok());
  auto file = fs.create("/d/unsynced_name").value();
  ASSERT_TRUE(file->append(as_bytes("x")).ok());
  ASSERT_TRUE(file->sync().ok());
  fs.power_loss();
  EXPECT_FALSE(fs.stat("/d/unsynced_name"));

  file = fs.create("/d/a").value();
  ASSERT_TRUE(file->append(as_bytes("kept")).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(fs.sync_dir("/d").ok());
  ASSERT_TRUE(file->append(as_bytes("lost")).ok());
  fs.power_loss(1);
  EXPECT_EQ(as_text(*fs.read_whole("/d/a", 100)), "keptl");
}

}  // namespace
}  // namespace forebay::io
