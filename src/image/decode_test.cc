// decode and prepare: PNG and WebP of every kind against Pillow's pixels; hostile bytes.
#include "image/decode.h"

#include <map>

#include "base/checksum.h"
#include "base/limits.h"
#include "image/prepare.h"
#include "image/test_images.h"
#include "jpeg/jpeg_samples.h"
#include "jpeg/rewrite.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Code;

struct File {
  Size size;
  std::string digest;
  ByteVector bytes;
};

const std::map<std::string, File>& files() {
  static const auto all = [] {
    std::map<std::string, File> out;
    for (auto& line : golden_lines("image_files.txt")) {
      std::string name;
      std::string hex;
      File file;
      line >> name >> file.size.width >> file.size.height >> file.digest >> hex;
      file.bytes = from_hex(hex);
      out[name] = file;
    }
    return out;
  }();
  return all;
}

TEST(Decode, EqualsPillow) {
  EXPECT_EQ(files().size(), 21u);
  ImageDecoder decoder;
  for (const auto& [name, file] : files()) {
    Pixels out;
    const Status status = decoder.decode(file.bytes, std::nullopt, &out);
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    EXPECT_EQ(base::to_hex(base::sha256(out.rgb)), file.digest) << name;
    EXPECT_EQ(read_header(file.bytes).value().size, file.size) << name;
    EXPECT_EQ(sniff(file.bytes), name.starts_with("webp") ? Format::kWebp : Format::kPng);
  }
}

TEST(Decode, RegionEqualsTheWholeCut) {
  ImageDecoder decoder;
  for (const char* name : {"rgb", "grey16", "webp_lossy"}) {
    const File& file = files().at(name);
    Pixels whole;
    ASSERT_TRUE(decoder.decode(file.bytes, std::nullopt, &whole).ok());
    const Rect region{3, 2, 7, 4};
    Pixels out;
    ASSERT_TRUE(decoder.decode(file.bytes, region, &out).ok());
    ASSERT_EQ(out.rgb.size(), 7u * 4 * 3);
    for (size_t y = 0; y < 4; ++y) {
      EXPECT_EQ(std::memcmp(out.rgb.data() + y * 21,
                            whole.rgb.data() + ((y + 2) * whole.width + 3) * 3, 21),
                0);
    }
    EXPECT_EQ(decoder.decode(file.bytes, Rect{7, 0, 7, 1}, &out).code(), Code::kInvalid);
    EXPECT_EQ(decoder.decode(file.bytes, Rect{0, 0, 0, 1}, &out).code(), Code::kInvalid);
  }
}

// Whatever is done to the bytes: an answer, and the next good file is read as ever.
void expect_survives(ImageDecoder& decoder, const File& good, Bytes bad, bool must_fail) {
  Pixels out;
  const Status status = decoder.decode(bad, std::nullopt, &out);
  EXPECT_TRUE(!must_fail || !status.ok());
  if (!status.ok()) {
    EXPECT_FALSE(status.message().empty());
    ASSERT_TRUE(decoder.decode(good.bytes, std::nullopt, &out).ok());
    ASSERT_EQ(base::to_hex(base::sha256(out.rgb)), good.digest);
  }
}

TEST(Decode, SurvivesTruncationAtEveryLength) {
  ImageDecoder decoder;
  for (const auto& [name, file] : files()) {
    SCOPED_TRACE(name);
    for (size_t length = 0; length < file.bytes.size(); ++length) {
      // libwebp does not need the last bytes of a file for its pixels.
      const bool must_fail = name.starts_with("webp") ? length < 30 : true;
      const ByteVector bad(file.bytes.begin(), file.bytes.begin() + static_cast<long>(length));
      expect_survives(decoder, file, bad, must_fail);
    }
  }
}

TEST(Decode, SurvivesEveryByteFlipped) {
  ImageDecoder decoder;
  for (const auto& [name, file] : files()) {
    SCOPED_TRACE(name);
    for (size_t at = 0; at < file.bytes.size(); ++at) {
      for (const int mask : {0xFF, 0x01, 0x80}) {
        ByteVector bad = file.bytes;
        bad[at] = static_cast<uint8_t>(bad[at] ^ mask);
        // Every byte of a PNG is under a CRC or is one.
        expect_survives(decoder, file, bad, !name.starts_with("webp"));
      }
    }
  }
}

TEST(Decode, NamesTheFirstBytesOfOtherFormats) {
  Pixels out;
  const Status status = ImageDecoder().decode(base::as_bytes("GIF89a..."), std::nullopt, &out);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("4749463839612e2e"), std::string::npos) << status.message();
  EXPECT_EQ(ImageDecoder().decode({}, std::nullopt, &out).code(), Code::kUnsupported);
  EXPECT_EQ(base::status_of(read_header(base::as_bytes("BM"))).code(), Code::kUnsupported);
}

ByteVector png_of_size(uint32_t width, uint32_t height) {
  ByteVector bytes = files().at("rgb").bytes;
  for (size_t i = 0; i < 4; ++i) {
    bytes[16 + i] = static_cast<uint8_t>(width >> (24 - 8 * i));
    bytes[20 + i] = static_cast<uint8_t>(height >> (24 - 8 * i));
  }
  return bytes;
}

TEST(Decode, RefusesSizesAboveTheLimitsBeforeAllocating) {
  constexpr uint32_t kSide = base::kImageSideMax;
  EXPECT_EQ(base::status_of(read_header(png_of_size(kSide + 1, 1))).code(), Code::kTooBig);
  EXPECT_EQ(base::status_of(read_header(png_of_size(1, kSide + 1))).code(), Code::kTooBig);
  EXPECT_EQ(base::status_of(read_header(png_of_size(kSide, 4097))).code(), Code::kTooBig);
  EXPECT_TRUE(read_header(png_of_size(kSide, 4096)));
  EXPECT_EQ(base::status_of(read_header(png_of_size(0, 1))).code(), Code::kCorrupt);
  Pixels out;
  const ByteVector huge = png_of_size(~0u, ~0u);
  EXPECT_EQ(ImageDecoder().decode(huge, std::nullopt, &out).code(), Code::kTooBig);
  EXPECT_EQ(out.rgb.capacity(), 0u);
}

TEST(Prepare, EqualsItsStepsOneByOne) {
  const File& file = files().at("rgb");
  const std::array<Transform, 6> transforms{
      TrainTransform{8, {}, true},
      EvalTransform{5, 6},
      TrainTransform{8, RandomPaddedCrop{3}, true},
      TrainTransform{8, {}, true, {}},
      TrainTransform{.size = 8, .crop = {}, .interpolation = Interpolation::kBicubic},
      EvalTransform{5, 6, Interpolation::kNearest}};
  size_t erased = 0;
  for (const Transform& transform : transforms) {
    Preparer preparer(transform, {});
    Resizer resizer(std::visit([](const auto& t) { return t.interpolation; }, transform));
    for (uint64_t sample = 0; sample < 50; ++sample) {
      const base::Random random(9, base::Purpose::kAugment, 1, sample);
      const Draw drawn = *draw(transform, file.size, random);
      base::PixelRows decoded;
      base::PixelRows resized;
      ASSERT_TRUE(ImageDecoder().decode(file.bytes, drawn.region, &decoded.pixels).ok());
      if (drawn.padding == 0) {
        resizer.resize(decoded, whole(decoded), drawn.resized, drawn.kept, &resized.pixels);
      } else {
        Pixels all;
        resizer.resize(decoded, whole(decoded), drawn.resized,
                       {0, 0, drawn.resized.width, drawn.resized.height}, &all);
        resized.pixels = cut_padded(all, drawn.padding, drawn.kept);
      }
      ByteVector steps(preparer.sample_bytes());
      TensorWriter({}).write(resized, drawn.flip, steps.data());
      if (drawn.erased) {
        TensorWriter({}).erase(*drawn.erased, {8, 8}, steps.data());
        ++erased;
      }
      ByteVector out(preparer.sample_bytes());
      ASSERT_TRUE(preparer.prepare(file.bytes, random, out.data()).ok());
      ASSERT_EQ(out, steps);
    }
  }
  EXPECT_GT(erased, 10u);
}

// Good and bad images of all formats: none changes what becomes of another.
TEST(Prepare, SeveralAtOnceAreEachAsAlone) {
  base::Random random(21, base::Purpose::kTest);
  std::vector<ByteVector> all;
  for (int i = 0; i < 60; ++i) {
    const jpeg::Sample sample{.width = 5 + static_cast<uint32_t>(random.below(60)),
                              .height = 5 + static_cast<uint32_t>(random.below(60)),
                              .components = i % 9 == 0 ? 1 : 3,
                              .across = 1 + i % 2,
                              .down = 1 + i / 2 % 2,
                              .restart = i % 3};
    ByteVector file = jpeg::make_jpeg(sample, random.next_u64());
    if (i % 2 == 0) file = jpeg::rewrite(file)->file;  // with tables that are compiled in
    if (i % 8 == 3) file.resize(file.size() - 1 - random.below(file.size()));
    if (i % 8 == 5) file[random.below(file.size())] ^= 0x5a;
    all.push_back(file);
  }
  for (const auto& [name, file] : files()) all.push_back(file.bytes);
  all.push_back({});
  base::shuffle(std::span(all), random);
  for (const Transform& transform : std::array<Transform, 3>{
           TrainTransform{8, RandomResizedCrop{}, true},
           TrainTransform{8, RandomPaddedCrop{3}, true}, EvalTransform{4, 5}}) {
    Preparer together(transform, {});
    Preparer alone(transform, {});
    std::vector<ByteVector> out(all.size(), ByteVector(together.sample_bytes()));
    std::vector<PrepareRequest> requests;
    for (size_t i = 0; i < all.size(); ++i) {
      requests.push_back({all[i], {5, base::Purpose::kAugment, 0, i}, out[i].data()});
    }
    together.prepare(requests);
    size_t good = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      ByteVector expected(alone.sample_bytes());
      const Status status = alone.prepare(all[i], requests[i].random, expected.data());
      ASSERT_EQ(requests[i].status.code(), status.code()) << i;
      ASSERT_EQ(requests[i].status.message(), status.message()) << i;
      if (!status.ok()) continue;
      ++good;
      ASSERT_TRUE(out[i] == expected) << i;
    }
    EXPECT_GT(good, 50u);
    EXPECT_LT(good, all.size() - 8);
  }
}

// What a transform makes of a file, in levels of 0 to 255.
std::vector<float> prepared(const Transform& transform, Bytes file, uint64_t sample) {
  const TensorOptions levels{.mean = {0, 0, 0}, .std = {1 / 255.f, 1 / 255.f, 1 / 255.f}};
  Preparer preparer(transform, levels);
  ByteVector out(preparer.sample_bytes());
  const base::Random random(3, base::Purpose::kAugment, 0, sample);
  EXPECT_TRUE(preparer.prepare(file, random, out.data()).ok());
  std::vector<float> numbers(out.size() / sizeof(float));
  std::memcpy(numbers.data(), out.data(), out.size());
  return numbers;
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

// In a gradient half a scaled pixel too far to the left would make two steps or more.
TEST(Prepare, ScaledDecodingGivesNearlyTheSame) {
  base::Random random(24, base::Purpose::kTest);
  for (uint64_t i = 0; i < 300; ++i) {
    const jpeg::Sample sample{.width = 40 + static_cast<uint32_t>(random.below(200)),
                              .height = 40 + static_cast<uint32_t>(random.below(200)),
                              .across = 1 + static_cast<int>(i % 2),
                              .down = 1 + static_cast<int>(i / 2 % 2),
                              .quality = 97,
                              .progressive = i % 7 == 0,
                              .gradient = true};
    SCOPED_TRACE(sample.name());
    const ByteVector file = jpeg::make_jpeg(sample);
    const auto interpolation = static_cast<Interpolation>(i % 3);
    TrainTransform train{.size = 5 + static_cast<uint32_t>(random.below(30)),
                         .interpolation = interpolation};
    if (i % 5 == 0) train.crop = RandomPaddedCrop{};
    EvalTransform eval{.size = 9, .resize = 12, .interpolation = interpolation};
    const auto exact_train = prepared(train, file, i);
    const auto exact_eval = prepared(eval, file, i);
    train.scaled_decode = true;
    eval.scaled_decode = true;
    const double step = 255.0 / (sample.width + sample.height);
    const double most = interpolation == Interpolation::kNearest ? 8 * step : 0.5 * step + 0.7;
    EXPECT_LT(mean_difference(prepared(train, file, i), exact_train), most);
    EXPECT_LT(mean_difference(prepared(eval, file, i), exact_eval), most);
  }
}

TEST(Prepare, ScaledDecodingIsForJpegsOfTwiceTheSizeOrMore) {
  const ByteVector& png = files().at("rgb").bytes;
  const ByteVector jpeg = jpeg::make_jpeg({.width = 80, .height = 63});
  const auto differs = [](Bytes file, uint32_t resize) {
    EvalTransform eval{.size = 2, .resize = resize};
    const auto exact = prepared(eval, file, 0);
    eval.scaled_decode = true;
    return prepared(eval, file, 0) != exact;
  };
  EXPECT_FALSE(differs(png, 2));
  EXPECT_FALSE(differs(jpeg, 32));
  EXPECT_TRUE(differs(jpeg, 31));
  EXPECT_TRUE(differs(jpeg, 7));
}

TEST(Prepare, FlipsHalfOfTheTime) {
  int flips = 0;
  for (uint64_t sample = 0; sample < 10'000; ++sample) {
    const base::Random random(9, base::Purpose::kAugment, 1, sample);
    flips += draw(TrainTransform{}, {500, 375}, random)->flip ? 1 : 0;
    EXPECT_FALSE(draw(TrainTransform{224, {}, false}, {500, 375}, random)->flip);
    EXPECT_FALSE(draw(EvalTransform{}, {500, 375}, random)->flip);
  }
  EXPECT_NEAR(flips, 5000, 250);
}

}  // namespace
}  // namespace forebay::image
