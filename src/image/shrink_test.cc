// Images that are made smaller have torchvision's size, nearly the pixels of the resized original,
// and its metadata. Metadata of PNG and WebP: tests/python/test_pack_resize.py, with Pillow.
#include "image/shrink.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "image/testing/golden_files.h"
#include "jpeg/format/markers.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/psnr.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Code;
using jpeg::Subsampling;
using testing::ElementsAre;

Pixels decoded(Bytes file) {
  Pixels out;
  const Status status = ImageDecoder().decode(file, std::nullopt, &out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

Pixels resized(Bytes file, Size size) {
  base::PixelRows rows;
  rows.pixels = decoded(file);
  Pixels out;
  Resizer().resize(rows, whole(rows), size, {0, 0, size.width, size.height}, &out);
  return out;
}

ByteVector shrunk(Bytes file, const Shrink& options) {
  const auto out = Shrinker(options).shrink(file);
  EXPECT_TRUE(out) << out.error().message();
  EXPECT_TRUE(out && *out) << "small enough";
  return out && *out ? **out : ByteVector();
}

jpeg::Header header_of(Bytes file) { return jpeg::parse_header(file).value(); }

// Each APPn or COM segment, as its code and the first bytes of its payload.
std::vector<std::string> metadata_of(Bytes file) {
  std::vector<std::string> out;
  jpeg::MarkerReader reader(file);
  for (auto marker = reader.next(); marker && marker->code != jpeg::kSos; marker = reader.next()) {
    if (!jpeg::is_metadata(marker->code)) continue;
    const std::string text(base::as_text(marker->payload));
    out.push_back(fmt::format("{:x} {}", marker->code, text.substr(0, text.find('\0'))));
  }
  return out;
}

ByteVector with_segment(const ByteVector& file, uint8_t code, std::string_view payload) {
  ByteVector out(file.begin(), file.begin() + 2);
  const size_t length = payload.size() + 2;
  const uint8_t head[] = {0xFF, code, static_cast<uint8_t>(length >> 8),
                          static_cast<uint8_t>(length)};
  out.insert(out.end(), head, head + 4);
  out.insert(out.end(), payload.begin(), payload.end());
  out.insert(out.end(), file.begin() + 2, file.end());
  return out;
}

TEST(Shrink, HasTheSizeAndNearlyThePixelsOfAResize) {
  for (const auto& [width, height] :
       {std::pair(200u, 150u), {150u, 201u}, {90u, 90u}, {700u, 65u}}) {
    for (const auto& [across, down] : {std::pair(1, 1), {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
      const ByteVector file = jpeg::make_jpeg(
          {.width = width, .height = height, .across = across, .down = down, .gradient = true});
      const ByteVector smaller = shrunk(file, {.short_side = 64, .quality = 90});
      const Size size =
          width <= height ? Size{64, 64 * height / width} : Size{64 * width / height, 64};
      const Pixels pixels = decoded(smaller);
      ASSERT_EQ((Size{pixels.width, pixels.height}), size);
      EXPECT_GT(jpeg::psnr(pixels, resized(file, size)), 40) << width << " " << across << down;
    }
  }
}

TEST(Shrink, KeepsTheSubsamplingThatIsUsual) {
  const auto subsampling_of = [](const jpeg::Sample& sample) {
    return header_of(shrunk(jpeg::make_jpeg(sample), {.short_side = 16})).subsampling();
  };
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40}), Subsampling::k444);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .across = 2}), Subsampling::k422);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .across = 2, .down = 2}), Subsampling::k420);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .down = 2}), Subsampling::k420);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .across = 4}), Subsampling::k420);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .components = 1}), Subsampling::kGray);
  EXPECT_EQ(subsampling_of({.width = 60, .height = 40, .components = 4}), Subsampling::k420);
}

// Files that the lossless rewrite leaves unchanged become ordinary JPEGs.
TEST(Shrink, TakesEveryJpegThatIsDecoded) {
  for (const jpeg::Sample& sample : std::vector<jpeg::Sample>{
           {.width = 90, .height = 70, .components = 1, .gradient = true},
           {.width = 90, .height = 70, .components = 4, .gradient = true},
           {.width = 90, .height = 70, .components = 4, .rgb = true, .gradient = true},
           {.width = 90, .height = 70, .rgb = true, .gradient = true},
           {.width = 90, .height = 70, .progressive = true, .gradient = true},
           {.width = 90, .height = 70, .arithmetic = true, .gradient = true},
           {.width = 90, .height = 70, .separate_scans = true, .gradient = true}}) {
    ByteVector file = jpeg::make_jpeg(sample);
    file.insert(file.end(), 1000, 'f');  // the video of a motion photo
    const ByteVector smaller = shrunk(file, {.short_side = 35, .quality = 95});
    EXPECT_GT(jpeg::psnr(decoded(smaller), resized(file, {45, 35})), 35) << sample.name();
    EXPECT_EQ(header_of(smaller).coding, jpeg::Coding::kBaseline);
  }
}

TEST(Shrink, KeepsMetadataThatStayTrue) {
  ByteVector file = jpeg::make_jpeg({.width = 60, .height = 40, .comments = true});
  file = with_segment(file, jpeg::kApp0 + 2, std::string_view("ICC_PROFILE\0\1\1profile", 21));
  file = with_segment(file, jpeg::kApp0 + 2, std::string_view("MPF\0MM", 6));
  file = with_segment(file, jpeg::kApp14, "Adobe\0d\0\0\0\0\0");
  file = with_segment(file, jpeg::kApp14, "mine");
  EXPECT_THAT(
      metadata_of(shrunk(file, {.short_side = 16})),
      ElementsAre("ee mine", "e2 ICC_PROFILE", "e0 JFIF", "e1 a com", "fe a comment", "ed "));
  // RGB and CMYK become YCbCr, which Adobe's segment and a CMYK profile would contradict.
  ByteVector cmyk = jpeg::make_jpeg({.width = 60, .height = 40, .components = 4});
  cmyk = with_segment(cmyk, jpeg::kApp0 + 2, std::string_view("ICC_PROFILE\0\1\1inks", 18));
  cmyk = with_segment(cmyk, jpeg::kApp0 + 1, "Exif");
  EXPECT_THAT(metadata_of(shrunk(cmyk, {.short_side = 16})), ElementsAre("e1 Exif"));
}

TEST(Shrink, LeavesSmallImagesAlone) {
  const ByteVector file = jpeg::make_jpeg({.width = 300, .height = 40});
  for (const uint64_t side : {40u, 41u, base::kImageSideMax}) {
    const auto out = Shrinker({.short_side = side}).shrink(file);
    ASSERT_TRUE(out) << out.error().message();
    EXPECT_FALSE(*out) << side;
  }
  EXPECT_EQ(header_of(shrunk(file, {.short_side = 39})).height, 39u);
}

// The golden files have 13 x 7 pixels.
TEST(Shrink, MakesAJpegOfPngAndWebpWhereOneHoldsAllOfIt) {
  const std::map<std::string, Subsampling> become = {
      {"rgb", Subsampling::k420},           {"grey", Subsampling::kGray},
      {"palette", Subsampling::k420},       {"rgb_interlaced", Subsampling::k420},
      {"rgb_described", Subsampling::k420}, {"webp_lossy", Subsampling::k420},
      {"webp_lossless", Subsampling::k420}};
  for (const auto& [name, file] : golden_files()) {
    const auto out = Shrinker({.short_side = 5}).shrink(file.bytes);
    const auto wanted = become.find(name);
    if (wanted == become.end()) {
      ASSERT_FALSE(out) << name;
      EXPECT_EQ(out.error().code(), Code::kUnsupported) << name;
      EXPECT_THAT(out.error().message(), testing::EndsWith("not 8 bits a channel"));
      continue;
    }
    ASSERT_TRUE(out && *out) << name;
    EXPECT_EQ(header_of(**out).subsampling(), wanted->second) << name;
    EXPECT_EQ(header_of(**out).width, 9u) << name;
    EXPECT_THAT(metadata_of(**out), testing::Contains("e0 JFIF")) << name;
  }
}

TEST(Shrink, ThinImagesStayThin) {
  constexpr uint32_t kLong = base::kImageSideMax;
  for (const auto& [width, height] : {std::pair(2u, kLong), {kLong, 2u}, {3u, kLong - 1}}) {
    const ByteVector file = jpeg::make_jpeg({.width = width, .height = height});
    const auto header = header_of(shrunk(file, {.short_side = 1}));
    EXPECT_EQ(std::min(header.width, header.height), 1u);
    EXPECT_EQ(std::max(header.width, header.height), kLong / std::min(width, height));
  }
}

// A damaged or truncated file gives an error or an image, and does not affect the next image.
TEST(Shrink, SurvivesHostileFiles) {
  base::Random random(7, base::Purpose::kTest);
  Shrinker shrinker({.short_side = 5});
  const ByteVector good = jpeg::make_jpeg({.width = 40, .height = 30, .comments = true});
  const ByteVector expected = shrunk(good, {.short_side = 5});
  std::vector<ByteVector> files = {
      good, jpeg::make_jpeg({.width = 40, .height = 30, .progressive = true})};
  for (const auto& [name, file] : golden_files()) files.push_back(file.bytes);
  for (const ByteVector& file : files) {
    for (int i = 0; i < 300; ++i) {
      ByteVector bad = file;
      if (i % 2 == 0) {
        bad.resize(random.below(file.size()));
      } else {
        bad[random.below(bad.size())] ^= static_cast<uint8_t>(1 + random.below(255));
      }
      const auto out = shrinker.shrink(bad);
      EXPECT_TRUE(!out || !*out || jpeg::parse_header(**out));
    }
    ASSERT_EQ(**shrinker.shrink(good), expected);
  }
}

}  // namespace
}  // namespace forebay::image
