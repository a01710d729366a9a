#include "image/palette.h"

#include <gmock/gmock.h>

namespace forebay::image {
namespace {

using Entries = std::vector<Palette::Entry>;
using testing::HasSubstr;

base::Pixels pixels(base::ByteVector rgb) {
  return {.width = 2, .height = static_cast<uint32_t>(rgb.size() / 6), .rgb = std::move(rgb)};
}

TEST(Palette, GivesEachColourItsLabel) {
  const Palette palette(Entries{{{128, 0, 0}, 1}, {{0, 0, 128}, 255}, {{0, 0, 0}, 0}}, {});
  base::Pixels mask = pixels({128, 0, 0, 128, 0, 0, 0, 0, 128, 0, 0, 0});
  ASSERT_TRUE(palette.to_labels(&mask).ok());
  EXPECT_EQ(mask.rgb, (base::ByteVector{1, 0, 0, 1, 0, 0, 255, 0, 0, 0, 0, 0}));
}

TEST(Palette, NamesThePixelOfAnUnknownColour) {
  const Palette palette(Entries{{{1, 2, 3}, 7}}, {});
  base::Pixels mask = pixels({1, 2, 3, 1, 2, 3, 1, 2, 3, 3, 2, 1});
  EXPECT_THAT(palette.to_labels(&mask).message(),
              HasSubstr("column 1, row 1 (counted from 0) has the colour (3, 2, 1)"));
  base::Pixels black = pixels({0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(Palette(Entries(), {}).to_labels(&black).ok());
}

TEST(Palette, GivesAllOtherColoursOneLabel) {
  const Palette palette(Entries{{{1, 2, 3}, 7}}, 9);
  base::Pixels mask = pixels({0, 0, 0, 1, 2, 3, 255, 255, 255, 1, 2, 3});
  ASSERT_TRUE(palette.to_labels(&mask).ok());
  EXPECT_EQ(mask.rgb, (base::ByteVector{9, 0, 0, 7, 0, 0, 9, 0, 0, 7, 0, 0}));
}

}  // namespace
}  // namespace forebay::image
