// Compares Preparer with its steps done one by one: every kind of crop, flips, erasing, several
// images at once, and decoding at a smaller scale.
#include <cmath>

#include "base/random.h"
#include "image/prepare.h"
#include "image/testing/golden_files.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Code;

// Returns what the sample shows of the resized image, computed from the whole encoded image.
Pixels cropped(const GoldenFile& file, const Transform& transform, const Draw& drawn) {
  Resizer resizer(transform.interpolation);
  base::PixelRows rows;
  EXPECT_TRUE(ImageDecoder().decode(file.bytes, std::nullopt, &rows.pixels).ok());
  Pixels out;
  if (drawn.cut.outside) {
    const Size size = drawn.cut.outside->image;
    resizer.resize(rows, whole(rows), size, {0, 0, size.width, size.height}, &out);
    return look(out, drawn.cut.outside->viewport, drawn.cut.outside->border);
  }
  rows.pixels.crop(drawn.cut.region);
  resizer.resize(rows, whole(rows), drawn.cut.resized, drawn.cut.kept, &out);
  return out;
}

void turn_over(Pixels* pixels) {
  const size_t row = size_t{3} * pixels->width;
  for (size_t y = 0; y < pixels->height / 2; ++y) {
    std::swap_ranges(pixels->rgb.data() + y * row, pixels->rgb.data() + (y + 1) * row,
                     pixels->rgb.data() + (pixels->height - 1 - y) * row);
  }
}

constexpr Padding kPadding{3, 3, 3, 3};
const RandomCrop kMirrored{
    .resize = ShortSide{8}, .padding = kPadding, .border = {.kind = BorderKind::kReflect}};

TEST(Prepare, EqualsItsStepsOneByOne) {
  const GoldenFile& file = golden_files().at("rgb");
  const RandomErasing erasing{.probability = 0.6, .value = {0.5F, -1, 2}};
  const Border symmetric{.kind = BorderKind::kSymmetric};
  const std::array<Transform, 13> transforms{{
      {.size = square(8)},
      {.size = {9, 4}, .erasing = erasing},
      {.size = square(8), .interpolation = Interpolation::kBicubic},
      {.size = square(5), .crop = CentreCrop{ShortSide{6}}, .flip = 0},
      {.size = {5, 3}, .crop = CentreCrop{Size{7, 30}}, .interpolation = Interpolation::kNearest},
      {.size = {40, 5}, .crop = CentreCrop{}},
      {.size = {4, 5}, .crop = CentreCrop{}, .vertical_flip = 0.5},
      {.size = square(8), .crop = kMirrored},
      {.size = {7, 4}, .crop = RandomCrop{.padding = {2, 0, 1, 6}, .border = symmetric}},
      {.size = {6, 5}, .crop = RandomCrop{}},
      {.size = {30, 50}, .crop = RandomCrop{.pad_if_needed = true, .border = {.fill = {7, 8, 9}}}},
      {.size = {4, 4}, .crop = RandomCrop{.padding = {9, 9, 9, 9}}, .erasing = erasing},
      {.size = {9, 7},
       .crop = RandomCrop{.resize = Size{8, 8}, .padding = {1, 2, 1, 0}},
       .vertical_flip = 0.3},
  }};
  size_t erased = 0;
  size_t turned = 0;
  for (const Transform& transform : transforms) {
    SCOPED_TRACE(&transform - transforms.data());
    Preparer preparer(transform, {});
    for (uint64_t sample = 0; sample < 50; ++sample) {
      const base::Random random(9, base::Purpose::kAugment, 1, sample);
      const Draw drawn = *draw(transform, file.size, random);
      base::PixelRows rows;
      rows.pixels = cropped(file, transform, drawn);
      if (drawn.vertical_flip) turn_over(&rows.pixels);
      turned += drawn.vertical_flip ? 1 : 0;
      ByteVector steps(preparer.sample_bytes());
      TensorWriter({}).write(rows, drawn.flip, steps.data());
      if (drawn.erased) {
        TensorWriter({}).fill(*drawn.erased, transform.size, erasing.value, steps.data());
        ++erased;
      }
      ByteVector out(preparer.sample_bytes());
      ASSERT_TRUE(preparer.prepare(file.bytes, random, out.data()).ok());
      ASSERT_EQ(out, steps);
    }
  }
  EXPECT_GT(erased, 40u);
  EXPECT_GT(turned, 25u);
}

TEST(Prepare, NamesImagesThatAreTooSmall) {
  const GoldenFile& file = golden_files().at("rgb");
  Preparer preparer({.size = square(500), .crop = RandomCrop{}}, {});
  ByteVector out(preparer.sample_bytes());
  const Status status = preparer.prepare(file.bytes, {1, base::Purpose::kTest}, out.data());
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(status.message().find("less than the crop of 500 x 500"), std::string::npos);
}

// Checks the share of flipped samples, and that no other draw depends on it.
TEST(Draw, FlipsWithAnyProbability) {
  constexpr int kCount = 20'000;
  for (const double p : {0.0, 0.1, 0.5, 0.93, 1.0}) {
    int flips = 0;
    int vertical = 0;
    int both = 0;
    for (uint64_t sample = 0; sample < kCount; ++sample) {
      const Transform transform{.flip = p, .vertical_flip = 1 - p};
      const Draw drawn = *draw(transform, {50, 40}, {2, base::Purpose::kTest, 0, sample});
      flips += drawn.flip ? 1 : 0;
      vertical += drawn.vertical_flip ? 1 : 0;
      both += drawn.flip && drawn.vertical_flip ? 1 : 0;
    }
    EXPECT_NEAR(flips, p * kCount, 4 * std::sqrt(p * (1 - p) * kCount));
    EXPECT_NEAR(vertical, (1 - p) * kCount, 4 * std::sqrt(p * (1 - p) * kCount));
    EXPECT_NEAR(both, p * (1 - p) * kCount, 4 * std::sqrt(p * (1 - p) * kCount));
  }
}

// Different samples get different noise; the same sample gets the same noise.
TEST(Prepare, ErasesWithNoise) {
  const GoldenFile& file = golden_files().at("rgb");
  const Transform transform{.size = square(64), .erasing = {.probability = 1, .noise = true}};
  const TensorOptions zeros{.mean = {0, 0, 0},
                            .std = {1e30F, 1e30F, 1e30F}};  // everything else is nearly 0
  Preparer preparer(transform, zeros);
  double sum = 0;
  double square_sum = 0;
  size_t count = 0;
  for (uint64_t sample = 0; sample < 40; ++sample) {
    const base::Random random(4, base::Purpose::kTest, 0, sample);
    std::vector<float> out(3 * 64 * 64);
    std::vector<float> again(out.size());
    for (auto* const to : {&out, &again}) {
      auto* const bytes = reinterpret_cast<uint8_t*>(to->data());
      ASSERT_TRUE(preparer.prepare(file.bytes, random, bytes).ok());
    }
    EXPECT_EQ(out, again);
    const Rect erased = *draw(transform, file.size, random)->erased;
    size_t noisy = 0;
    for (const float value : out) {
      noisy += std::abs(value) > 1e-20F ? 1 : 0;
      sum += value;
      square_sum += value * value;
    }
    EXPECT_EQ(noisy, size_t{3} * erased.width * erased.height);
    count += noisy;
  }
  const auto n = static_cast<double>(count);
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square_sum / n, 1, 4 * std::sqrt(2 / n));
}

// Good and bad images of all formats do not affect each other.
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
    if (i % 2 == 0) file = jpeg::rewrite(file)->file;  // uses compiled-in tables
    if (i % 8 == 3) file.resize(file.size() - 1 - random.below(file.size()));
    if (i % 8 == 5) file[random.below(file.size())] ^= 0x5a;
    all.push_back(file);
  }
  for (const auto& [name, file] : golden_files()) all.push_back(file.bytes);
  all.push_back({});
  base::shuffle(std::span(all), random);
  for (const Transform& transform :
       std::array<Transform, 4>{{{.size = square(8)},
                                 {.size = square(8), .crop = kMirrored},
                                 {.size = square(4), .crop = CentreCrop{ShortSide{5}}, .flip = 0},
                                 {.size = {60, 50}, .crop = RandomCrop{.pad_if_needed = true}}}}) {
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

// Returns what a transform makes of a file, in levels from 0 to 255.
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

// In a gradient, half a scaled pixel too far to the left would make a difference of two steps or
// more.
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
    Transform train{.size = square(5 + static_cast<uint32_t>(random.below(30))),
                    .interpolation = interpolation};
    if (i % 5 == 0) {
      train.crop = RandomCrop{.resize = ShortSide{train.size.width}, .padding = {4, 4, 4, 4}};
    }
    Transform eval{.size = square(9),
                   .crop = CentreCrop{ShortSide{12}},
                   .flip = 0,
                   .interpolation = interpolation};
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
  const ByteVector& png = golden_files().at("rgb").bytes;
  const ByteVector jpeg = jpeg::make_jpeg({.width = 80, .height = 63});
  const auto differs = [](Bytes file, uint32_t resize) {
    Transform eval{.size = square(2), .crop = CentreCrop{ShortSide{resize}}, .flip = 0};
    const auto exact = prepared(eval, file, 0);
    eval.scaled_decode = true;
    return prepared(eval, file, 0) != exact;
  };
  EXPECT_FALSE(differs(png, 2));
  EXPECT_FALSE(differs(jpeg, 32));
  EXPECT_TRUE(differs(jpeg, 31));
  EXPECT_TRUE(differs(jpeg, 7));
}

}  // namespace
}  // namespace forebay::image
