#include "store/source/image_names.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

namespace forebay::store {
namespace {

using Numbers = std::vector<uint64_t>;
using testing::HasSubstr;

Numbers match(const SampleNames& samples, const std::vector<std::string>& file_names) {
  const auto found = ImageNames(samples).match(file_names);
  if (!found) ADD_FAILURE() << found.error().message();
  return found ? *found : Numbers();
}

std::string error(const SampleNames& samples, const std::vector<std::string>& file_names) {
  const auto found = ImageNames(samples).match(file_names);
  return found ? "no error" : found.error().message();
}

TEST(ImageNames, AreKeysWithoutTheSuffix) {
  const SampleNames names{{"cat/x", "dog/y", "a%2E0", "dog/x", "%5F_z", "shard-1/007"}};
  EXPECT_EQ(match(names, {"cat/x.jpg", "a.0.png", "__z.png", "z.png"}),
            (Numbers{0, 2, 4, kNoSample}));
  EXPECT_EQ(match(names, {"./cat//x.png"}), Numbers{0});
  EXPECT_EQ(match(names, {"cat\\x.png"}), Numbers{0});
}

TEST(ImageNames, MayLackFoldersWhereOneSampleHasTheName) {
  const SampleNames names{{"cat/x", "dog/y", "dog/x", "7"}};
  EXPECT_EQ(match(names, {"y.jpg", "train2017/7.jpg", "cow/y.jpg", "og/y.jpg"}),
            (Numbers{1, 3, kNoSample, kNoSample}))
      << "only whole folders count";
  EXPECT_EQ(match(names, {"train2017/dog/y.jpg"}), Numbers{1});
  EXPECT_THAT(error(names, {"x.jpg"}), HasSubstr("x.jpg may mean cat/x or dog/x"));
}

// Files of a folder that differ only in their suffixes have the keys "a" and "a_png".
TEST(ImageNames, WholeNamesComeFirst) {
  const SampleNames twins{{"a", "a_png", "b"}, {"a.jpg", "a.png", "b.png"}};
  EXPECT_EQ(match(twins, {"a.png", "a.jpg", "b.jpg"}), (Numbers{1, 0, 2}));
  EXPECT_EQ(match(twins, {"train/a.png"}), Numbers{1});
  EXPECT_THAT(error(twins, {"a.webp"}), HasSubstr("a.webp may mean a.jpg or a.png"));
  const SampleNames single{{"a"}, {"a.jpg"}};
  EXPECT_EQ(match(single, {"a.png", "a.jpg"}), (Numbers{kNoSample, 0}));
  EXPECT_THAT(error(single, {"a.png", "a.webp"}),
              HasSubstr("a.png and the file_name a.webp both mean a.jpg"));
  EXPECT_THAT(error(single, {"a.jpg", "./a.jpg"}), HasSubstr("both mean a.jpg"));
}

std::optional<uint64_t> find(const SampleNames& samples, const std::string& file_name) {
  return ImageNames(samples).find(file_name).sample;
}

bool fits_several(const SampleNames& samples, const std::string& file_name) {
  const ImageNames::Match found = ImageNames(samples).find(file_name);
  return found.fits_several && !found.sample;
}

TEST(ImageNames, OfLabelsAreKeysWithoutTheSuffix) {
  const SampleNames names{{"cat/x", "dog/y", "a%2E0", "dog/x", "%5F_z", "shard-1/007"}};
  EXPECT_EQ(find(names, "cat/x.jpg"), 0u);
  EXPECT_EQ(find(names, "./cat//x.png"), 0u);
  EXPECT_EQ(find(names, "cat\\x.png"), 0u);
  EXPECT_EQ(find(names, "a.0.png"), 2u);
  EXPECT_EQ(find(names, "__z.png"), 4u);
  EXPECT_EQ(find(names, "z.png"), std::nullopt);
  EXPECT_EQ(find(names, "./"), std::nullopt);
}

TEST(ImageNames, OfLabelsMayLackFoldersWhereOneSampleHasTheName) {
  const SampleNames names{{"cat/x", "dog/y", "dog/x", "7"}};
  EXPECT_EQ(find(names, "y.jpg"), 1u);
  EXPECT_EQ(find(names, "train2017/dog/y.jpg"), 1u);
  EXPECT_EQ(find(names, "train2017/7.jpg"), 3u);
  EXPECT_TRUE(fits_several(names, "x.jpg"));
  EXPECT_EQ(find(names, "cow/y.jpg"), std::nullopt);
  EXPECT_EQ(find(names, "og/y.jpg"), std::nullopt) << "only whole folders count";
}

TEST(ImageNames, OfLabelsArePathsWithTheirSuffixFirst) {
  const SampleNames names{{"cat/x", "cat/x_png", "IMG%2E2020", "IMG", "dog/x"},
                          {"cat/x.jpg", "cat/x.png", "IMG.2020.jpg", "IMG.jpg", "dog/x.webp"}};
  EXPECT_EQ(find(names, "x.png"), 1u) << "the key of x.jpg is the name without its suffix";
  EXPECT_EQ(find(names, "photos/cat/x.jpg"), 0u);
  EXPECT_EQ(find(names, "dog/x.bmp"), 4u) << "only the suffix differs";
  EXPECT_EQ(find(names, "IMG.2020"), 2u) << "a name without a suffix may have a dot";
  EXPECT_EQ(find(names, "IMG.2020.JPEG"), 2u);
  EXPECT_EQ(find(names, "IMG%2E2020"), 2u) << "this is the key";
  EXPECT_EQ(find(names, "IMG.2021"), std::nullopt);
  EXPECT_EQ(find(names, "IMG"), 3u);
}

TEST(ImageNames, OfLabelsMayFitSeveralSamples) {
  const SampleNames names{{"cat/x", "cat/x_png", "dog/x"}, {"cat/x.jpg", "cat/x.png", "dog/x.jpg"}};
  EXPECT_TRUE(fits_several(names, "x.jpg"));
  EXPECT_TRUE(fits_several(names, "x"));
  EXPECT_FALSE(fits_several(names, "x.png"));
  EXPECT_FALSE(fits_several(names, "y"));
}

// Labels of "a.0" and "a.webp" went to the last and the first of two images without a word.
TEST(ImageNames, OfLabelsFitTwinsOnlyByWholeNames) {
  const SampleNames names{{"a", "a_png", "b%2E0", "b%2E0_png"},
                          {"a.jpg", "a.png", "b.0.jpg", "b.0.png"}};
  EXPECT_TRUE(fits_several(names, "a.webp"));
  EXPECT_TRUE(fits_several(names, "b.0"));
  EXPECT_EQ(find(names, "b.0.png"), 3u);
  EXPECT_EQ(find(names, "a"), 0u) << "this is the key";
}

TEST(ImageNames, OfTwoDatasetsAreJoined) {
  const SampleNames twins{{"a", "a_png", "b"}, {"a.jpg", "a.png", "b.jpg"}};
  const auto same = [](const SampleNames& own, const SampleNames& other) {
    const auto found = same_names(own, other);
    return found ? fmt::format("{}",
                               fmt::join(std::vector<int64_t>(found->begin(), found->end()), " "))
                 : found.error().message();
  };
  EXPECT_EQ(same(twins, {{"b", "a"}, {"b.png", "a.png"}}), "-1 1 0");
  EXPECT_EQ(same({{"b", "c"}}, {{"c", "b"}, {"c.png", "b.png"}}), "1 0");
  EXPECT_EQ(same({{"0001"}, {"0001.left.jpg"}}, {{"0001"}, {"0001.png"}}), "0") << "of shards";
  EXPECT_THAT(same(twins, {{"b", "a"}, {"b.png", "a.webp"}}),
              HasSubstr("a.webp may belong to a.jpg or a.png"));
  EXPECT_THAT(same({{"a"}, {"a.jpg"}}, {{"a", "a_webp"}, {"a.png", "a.webp"}}),
              HasSubstr("a.jpg may belong to a."));
}

std::string joined(const SampleNames& own, const SampleNames& other, std::string_view pattern,
                   std::string_view other_pattern) {
  const auto found = same_names(
      own, other, {NamePattern::parse(pattern).value(), NamePattern::parse(other_pattern).value()});
  if (!found) return found.error().message();
  return fmt::format("{}", fmt::join(std::vector<int64_t>(found->begin(), found->end()), " "));
}

TEST(ImageNames, AreJoinedByPatterns) {
  const SampleNames images{{"b/2_left", "a/1_left", "a/2_left", "c/_left", "a/3"}};
  const SampleNames masks{{"a/1_color", "a/1_id", "a/2_id", "b/2_id", "c/_id", "a/3", "x/_id_id"}};
  EXPECT_EQ(joined(images, masks, "{}_left", "{}_id"), "3 1 2 -1 -1");
  EXPECT_EQ(joined({{"im_1.0", "x"}}, {{"1.0_m"}}, "im_{}", "{}_m"), "0 -1");
  EXPECT_EQ(joined({{"a%2E0"}}, {{"a%2E0%2Em"}}, "{}", "{}.m"), "0") << "dots are escaped in keys";
  const SampleNames with_paths{{"a_L", "a_L_png"}, {"a_L.jpg", "a_L.png"}};
  EXPECT_EQ(joined({{"a"}, {"a.png"}}, {{"a_L"}, {"a_L.png"}}, "{}", "{}_L"), "0");
  EXPECT_THAT(joined({{"a"}, {"a.png"}}, with_paths, "{}", "{}_L"),
              HasSubstr("a.png may belong to a_L."));
  EXPECT_THAT(joined(with_paths, {{"a"}, {"a.png"}}, "{}_L", "{}"),
              HasSubstr("a.png may belong to a_L."));
}

TEST(NamePattern, HasBracesOnceAndIsTheNameAlone) {
  for (const char* text : {"", "_left", "{}{}", "a/{}", "a\\{}", "{}_left.png", "{}.JPEG"}) {
    EXPECT_FALSE(NamePattern::parse(text)) << text;
  }
  EXPECT_EQ(NamePattern::parse("a_{}_b.c").value().text(), "a_{}_b.c");
}

TEST(ImageNames, MayBeTwins) {
  EXPECT_TRUE(may_be_twins(std::vector<std::string>{"x/a", "x/a_png"}));
  EXPECT_TRUE(may_be_twins(std::vector<std::string>{"a", "a_png_2"}));
  EXPECT_FALSE(may_be_twins(std::vector<std::string>{"a", "b_png", "a_b", "_png"}));
}

TEST(ImageNames, HaveALastComponent) {
  for (const char* name : {"", ".", "/", "./", "\\"}) {
    EXPECT_FALSE(ImageNames::is_file_name(name)) << name;
  }
  EXPECT_TRUE(ImageNames::is_file_name("a/b"));
}

}  // namespace
}  // namespace forebay::store
