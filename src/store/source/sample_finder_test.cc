#include "store/source/sample_finder.h"

#include <gtest/gtest.h>

namespace forebay::store {
namespace {

TEST(SampleFinder, AreKeysWithoutTheSuffix) {
  const SampleFinder names({"cat/x", "dog/y", "a%2E0", "dog/x", "%5F_z", "shard-1/007"});
  EXPECT_EQ(names.match("cat/x.jpg").sample, 0u);
  EXPECT_EQ(names.match("./cat//x.png").sample, 0u);
  EXPECT_EQ(names.match("cat\\x.png").sample, 0u);
  EXPECT_EQ(names.match("a.0.png").sample, 2u);
  EXPECT_EQ(names.match("__z.png").sample, 4u);
  EXPECT_EQ(names.match("z.png").sample, std::nullopt);
}

TEST(SampleFinder, MayLackFoldersWhereOneSampleHasTheName) {
  const SampleFinder names({"cat/x", "dog/y", "dog/x", "7"});
  EXPECT_EQ(names.match("y.jpg").sample, 1u);
  EXPECT_EQ(names.match("train2017/dog/y.jpg").sample, 1u);
  EXPECT_EQ(names.match("train2017/7.jpg").sample, 3u);
  EXPECT_EQ(names.match("x.jpg").sample, std::nullopt) << "two samples have the name";
  EXPECT_EQ(names.match("cow/y.jpg").sample, std::nullopt);
  EXPECT_EQ(names.match("og/y.jpg").sample, std::nullopt) << "only whole folders count";
}

TEST(SampleFinder, ArePathsWithTheirSuffixFirst) {
  const SampleFinder names({"cat/x", "cat/x_png", "IMG%2E2020", "IMG", "dog/x"},
                           {"cat/x.jpg", "cat/x.png", "IMG.2020.jpg", "IMG.jpg", "dog/x.webp"});
  EXPECT_EQ(names.match("x.png").sample, 1u) << "the key of x.jpg is the name without its suffix";
  EXPECT_EQ(names.match("photos/cat/x.jpg").sample, 0u);
  EXPECT_EQ(names.match("dog/x.bmp").sample, 4u) << "only the suffix differs";
  EXPECT_EQ(names.match("IMG.2020").sample, 2u) << "a name without a suffix may have a dot";
  EXPECT_EQ(names.match("IMG.2020.JPEG").sample, 2u);
  EXPECT_EQ(names.match("IMG%2E2020").sample, 2u) << "this is the key";
  EXPECT_EQ(names.match("IMG.2021").sample, std::nullopt);
  EXPECT_EQ(names.match("IMG").sample, 3u);
}

TEST(SampleFinder, MayFitSeveralSamples) {
  const SampleFinder names({"cat/x", "cat/x_png", "dog/x"},
                           {"cat/x.jpg", "cat/x.png", "dog/x.jpg"});
  EXPECT_TRUE(names.match("x.jpg").fits_several);
  EXPECT_TRUE(names.match("x").fits_several);
  EXPECT_FALSE(names.match("x.png").fits_several);
  EXPECT_FALSE(names.match("y").fits_several);
}

}  // namespace
}  // namespace forebay::store
