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

TEST(DatasetOrigins, NoPathLeadsOutOfADataset) {
  DatasetOrigins origins;
  const auto disk = std::make_shared<const io::MemoryFileSystem>();
  for (const char* root : {"https://host/data/set/", "/data/set/", "s3://bucket/set/"}) {
    origins.add(root, disk);
    for (const char* path :
         {"../secret", "./a", "a/../../secret", "%2e%2e/secret", "%2E%2E%2Fsecret", "..%2fsecret",
          "%2e./secret", "a%2f..%2f..%2fsecret", "%252e%252e/secret", "a\\..\\..\\secret", ".."}) {
      EXPECT_EQ(origins.find(root + std::string(path)), nullptr) << root << path;
    }
    for (const char* path : {"a", "a/.hidden", "..a/b", "a..", "100%", "50%25/b", "a%20b/%zz"}) {
      EXPECT_NE(origins.find(root + std::string(path)), nullptr) << root << path;
    }
  }
}

}  // namespace
}  // namespace forebay::cache
