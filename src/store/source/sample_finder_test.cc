#include "store/source/sample_finder.h"

#include <gtest/gtest.h>

namespace forebay::store {
namespace {

TEST(SampleFinder, AreKeysWithoutTheSuffix) {
  const SampleFinder names({"cat/x", "dog/y", "a%2E0", "dog/x", "%5F_z", "shard-1/007"});
  EXPECT_EQ(names.find("cat/x.jpg"), 0u);
  EXPECT_EQ(names.find("./cat//x.png"), 0u);
  EXPECT_EQ(names.find("cat\\x.png"), 0u);
  EXPECT_EQ(names.find("a.0.png"), 2u);
  EXPECT_EQ(names.find("__z.png"), 4u);
  EXPECT_EQ(names.find("z.png"), std::nullopt);
}

TEST(SampleFinder, MayLackFoldersWhereOneSampleHasTheName) {
  const SampleFinder names({"cat/x", "dog/y", "dog/x", "7"});
  EXPECT_EQ(names.find("y.jpg"), 1u);
  EXPECT_EQ(names.find("train2017/dog/y.jpg"), 1u);
  EXPECT_EQ(names.find("train2017/7.jpg"), 3u);
  EXPECT_EQ(names.find("x.jpg"), std::nullopt) << "two samples have the name";
  EXPECT_EQ(names.find("cow/y.jpg"), std::nullopt);
  EXPECT_EQ(names.find("og/y.jpg"), std::nullopt) << "only whole folders count";
}

TEST(SampleFinder, ArePathsWithTheirSuffixFirst) {
  const SampleFinder names({"cat/x", "cat/x_png", "IMG%2E2020", "IMG", "dog/x"},
                           {"cat/x.jpg", "cat/x.png", "IMG.2020.jpg", "IMG.jpg", "dog/x.webp"});
  EXPECT_EQ(names.find("x.png"), 1u) << "the key of x.jpg is the name without its suffix";
  EXPECT_EQ(names.find("photos/cat/x.jpg"), 0u);
  EXPECT_EQ(names.find("dog/x.bmp"), 4u) << "only the suffix differs";
  EXPECT_EQ(names.find("IMG.2020"), 2u) << "a name without a suffix may have a dot";
  EXPECT_EQ(names.find("IMG.2020.JPEG"), 2u);
  EXPECT_EQ(names.find("IMG%2E2020"), 2u) << "this is the key";
  EXPECT_EQ(names.find("IMG.2021"), std::nullopt);
  EXPECT_EQ(names.find("IMG"), 3u);
}

TEST(SampleFinder, MayFitSeveralSamples) {
  const SampleFinder names({"cat/x", "cat/x_png", "dog/x"},
                           {"cat/x.jpg", "cat/x.png", "dog/x.jpg"});
  EXPECT_TRUE(names.match("x.jpg").fits_several);
  EXPECT_TRUE(names.match("x").fits_several);
  EXPECT_FALSE(names.match("x.png").fits_several);
  EXPECT_FALSE(names.match("y").fits_several);
}

TEST(SampleFinder, HaveALastComponent) {
  for (const char* name : {"", ".", "/", "./", "\\"}) {
    EXPECT_FALSE(SampleFinder::is_file_name(name)) << name;
  }
  EXPECT_TRUE(SampleFinder::is_file_name("a/b"));
}

}  // namespace
}  // namespace forebay::store
