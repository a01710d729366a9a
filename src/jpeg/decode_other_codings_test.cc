// Images that only libjpeg-turbo decodes (four components, arithmetic coding), and regions that are
// not inside an image.
#include <gtest/gtest.h>

#include "jpeg/decode.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;
using base::Rect;

TEST(Decode, FourComponentsAsPillow) {
  // The expected values follow Pillow's cmyk2rgb: the ink is 255 - stored, light = 255 - black ink,
  // and r = light - ink * light / 255, rounded: 128 - 55 * 128 / 255 = 100 for the first channel.
  const auto plain = make_jpeg({.components = 4, .quality = 100, .plain = {200, 100, 50, 128}});
  Pixels one;
  ASSERT_TRUE(Decoder().decode(plain, Rect{3, 3, 1, 1}, &one).ok());
  EXPECT_EQ(one.rgb, (ByteVector{100, 50, 25}));
  Decoder decoder;
  for (const bool ycck : {false, true}) {
    const auto file = make_jpeg({.width = 30, .height = 20, .components = 4, .rgb = ycck});
    Pixels full;
    Pixels part;
    ASSERT_TRUE(decoder.decode(file, std::nullopt, &full).ok());
    ASSERT_TRUE(decoder.decode(file, Rect{7, 5, 20, 9}, &part).ok());
    EXPECT_EQ(part.rgb, crop(full, {7, 5, 20, 9}));
  }
}

TEST(Decode, ArithmeticCoding) {
  const auto file = make_jpeg({.width = 33, .height = 21, .arithmetic = true});
  Decoder decoder;
  Pixels pixels;
  ASSERT_TRUE(decoder.decode(file, std::nullopt, &pixels).ok());
  EXPECT_EQ(pixels.rgb, reference_pixels(file));
}

TEST(Decode, RegionOutsideIsInvalid) {
  Decoder decoder;
  Pixels pixels;
  const auto file = make_jpeg({});
  EXPECT_EQ(decoder.decode(file, Rect{0, 0, 17, 1}, &pixels).code(), Code::kInvalid);
  EXPECT_EQ(decoder.decode(file, Rect{0, 0, 0, 1}, &pixels).code(), Code::kInvalid);
  EXPECT_EQ(decoder.decode(file, Rect{UINT32_MAX, 0, 2, 1}, &pixels).code(), Code::kInvalid);
}

}  // namespace
}  // namespace forebay::jpeg
