// Tests cropping in place, and the limits of an image's size.
#include "base/pixels.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace forebay::base {
namespace {

TEST(Pixels, CropKeepsTheRegionsRows) {
  Pixels pixels;
  pixels.reset(3, 4);
  for (size_t i = 0; i < pixels.rgb.size(); ++i) pixels.rgb[i] = static_cast<uint8_t>(i);
  pixels.crop({1, 2, 2, 2});
  EXPECT_EQ(pixels.width, 2U);
  EXPECT_EQ(pixels.height, 2U);
  EXPECT_EQ(pixels.rgb, (ByteVector{21, 22, 23, 24, 25, 26, 30, 31, 32, 33, 34, 35}));
}

TEST(Pixels, ImageSizesHaveLimits) {
  EXPECT_TRUE(check_image_size("X", kImageSideMax, kImagePixelsMax / kImageSideMax).ok());
  EXPECT_EQ(check_image_size("X", kImageSideMax + 1, 1).code(), Code::kTooBig);
  EXPECT_EQ(check_image_size("X", 1, kImageSideMax + 1).code(), Code::kTooBig);
  EXPECT_EQ(check_image_size("X", kImageSideMax, kImagePixelsMax / kImageSideMax + 1).code(),
            Code::kTooBig);
}

}  // namespace
}  // namespace forebay::base
