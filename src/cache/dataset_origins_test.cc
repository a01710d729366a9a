#include "cache/dataset_origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/testing/memory.h"

namespace forebay::cache {
namespace {

using ::testing::ElementsAre;

TEST(DatasetOrigins, ARootStaysWhileAnotherDatasetHasIt) {
  const auto one = std::make_shared<const io::MemoryFileSystem>();
  const auto other = std::make_shared<const io::MemoryFileSystem>();
  DatasetOrigins sources;
  sources.add("/set/", one);
  sources.add("/set/", other);
  sources.add("/set/", other);
  EXPECT_THAT(sources.roots(), ElementsAre("/set/"));
  sources.remove("/set/", *other);
  sources.remove("/set/", *one);
  EXPECT_EQ(sources.find("/set/a"), other);
  EXPECT_EQ(sources.find("/set"), other);
  sources.remove("/set/", *other);
  EXPECT_EQ(sources.find("/set/a"), nullptr);
  sources.remove("/set/", *other);
}

}  // namespace
}  // namespace forebay::cache
