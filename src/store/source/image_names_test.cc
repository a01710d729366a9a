#include "store/source/image_names.h"

#include <gtest/gtest.h>

namespace forebay::store {
namespace {

TEST(ImageNames, AreKeysWithoutTheSuffix) {
  const ImageNames names({"cat/x", "dog/y", "a%2E0", "dog/x", "%5F_z", "shard-1/007"});
  EXPECT_EQ(names.find("cat/x.jpg"), 0u);
  EXPECT_EQ(names.find("./cat//x.png"), 0u);
  EXPECT_EQ(names.find("cat\\x.png"), 0u);
  EXPECT_EQ(names.find("a.0.png"), 2u);
  EXPECT_EQ(names.find("__z.png"), 4u);
  EXPECT_EQ(names.find("z.png"), std::nullopt);
}

TEST(ImageNames, MayLackFoldersWhereOneSampleHasTheName) {
  const ImageNames names({"cat/x", "dog/y", "dog/x", "7"});
  EXPECT_EQ(names.find("y.jpg"), 1u);
  EXPECT_EQ(names.find("train2017/dog/y.jpg"), 1u);
  EXPECT_EQ(names.find("train2017/7.jpg"), 3u);
  EXPECT_EQ(names.find("x.jpg"), std::nullopt) << "two samples have the name";
  EXPECT_EQ(names.find("cow/y.jpg"), std::nullopt);
  EXPECT_EQ(names.find("og/y.jpg"), std::nullopt) << "only whole folders count";
}

TEST(ImageNames, HaveALastComponent) {
  for (const char* name : {"", ".", "/", "./", "\\"}) {
    EXPECT_FALSE(ImageNames::is_file_name(name)) << name;
  }
  EXPECT_TRUE(ImageNames::is_file_name("a/b"));
}

}  // namespace
}  // namespace forebay::store
