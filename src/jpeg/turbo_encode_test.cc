// Encoding gives baseline JPEGs of the pixels, with the subsampling and metadata that were asked
// for. libjpeg-turbo decodes them.
#include "jpeg/turbo_encode.h"

#include <gmock/gmock.h>

#include "jpeg/decode.h"
#include "jpeg/format/markers.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/psnr.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;

// A smooth picture, coloured or grey.
Pixels smooth(uint32_t width, uint32_t height, bool grey) {
  Pixels pixels;
  pixels.reset(width, height);
  uint8_t* out = pixels.rgb.data();
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < 3; ++c) {
        *out++ = static_cast<uint8_t>((x + y / 2 + (grey ? 0 : c * 40)) / 2);
      }
    }
  }
  return pixels;
}

TEST(TurboEncode, IsNearThePixelsInEachSubsampling) {
  Decoder decoder;
  for (const auto subsampling :
       {Subsampling::kGray, Subsampling::k444, Subsampling::k422, Subsampling::k420}) {
    for (const auto& [width, height] : {std::pair(1u, 1u), {7u, 30u}, {33u, 17u}, {160u, 120u}}) {
      const Pixels pixels = smooth(width, height, subsampling == Subsampling::kGray);
      const auto file = turbo_encode(pixels, {.quality = 95, .subsampling = subsampling});
      ASSERT_TRUE(file) << file.error().message();
      const auto header = parse_header(*file);
      ASSERT_TRUE(header);
      EXPECT_EQ(header->subsampling(), subsampling);
      EXPECT_EQ(header->coding, Coding::kBaseline);
      EXPECT_EQ(header->restart_interval, 0u);
      Pixels decoded;
      ASSERT_TRUE(decoder.decode(*file, std::nullopt, &decoded).ok());
      ASSERT_EQ(std::pair(decoded.width, decoded.height), std::pair(width, height));
      EXPECT_GT(psnr(pixels, decoded), 35) << subsampling_name(subsampling) << " " << width;
    }
  }
}

TEST(TurboEncode, QualityDecidesTheSize) {
  const Pixels pixels = smooth(200, 150, false);
  size_t last = 0;
  for (const int quality : {1, 30, 60, 90, 100}) {
    const auto file = turbo_encode(pixels, {.quality = quality});
    ASSERT_TRUE(file) << quality;
    EXPECT_GT(file->size(), last) << quality;
    last = file->size();
  }
}

// Noise needs more room than was set aside for the file.
TEST(TurboEncode, NoiseHasRoom) {
  base::Random random(1, base::Purpose::kTest);
  Pixels noise;
  noise.reset(300, 200);
  for (uint8_t& value : noise.rgb) value = static_cast<uint8_t>(random.below(256));
  const auto file = turbo_encode(noise, {.quality = 100, .subsampling = Subsampling::k444});
  ASSERT_TRUE(file);
  EXPECT_GT(file->size(), noise.rgb.size() / 2 + 10000);
  Pixels decoded;
  ASSERT_TRUE(Decoder().decode(*file, std::nullopt, &decoded).ok());
  EXPECT_GT(psnr(noise, decoded), 40);
}

TEST(TurboEncode, WritesTheMetadataAndNoOther) {
  const std::vector<MetadataSegment> metadata = {
      {kApp0 + 1, ByteVector(65533, 'e')}, {kCom, {'c'}}, {kApp15, {}}};
  const auto file = turbo_encode(smooth(20, 10, false), {.metadata = metadata});
  ASSERT_TRUE(file) << file.error().message();
  MarkerReader reader(*file);
  std::vector<std::pair<int, size_t>> found;
  for (auto marker = reader.next(); marker && marker->code != kSos; marker = reader.next()) {
    if (is_metadata(marker->code)) found.emplace_back(marker->code, marker->payload.size());
  }
  EXPECT_THAT(found, testing::ElementsAre(testing::Pair(kApp0 + 1, 65533u), testing::Pair(kCom, 1u),
                                          testing::Pair(kApp15, 0u)));
}

TEST(TurboEncode, RefusesWhatLibjpegRefuses) {
  const auto code_of = [](const Pixels& pixels, const EncodeOptions& options) {
    return base::status_of(turbo_encode(pixels, options)).code();
  };
  EXPECT_EQ(code_of({}, {}), Code::kInvalid);
  Pixels wide;
  wide.reset(65536, 1);
  EXPECT_EQ(code_of(wide, {}), Code::kInvalid);
  const std::vector<MetadataSegment> too_long = {{kCom, ByteVector(65534)}};
  EXPECT_EQ(code_of(smooth(20, 10, false), {.metadata = too_long}), Code::kInvalid);
}

}  // namespace
}  // namespace forebay::jpeg
