// Crops have torchvision's distribution: by the moments of crops drawn with PyTorch, and compared
// with an implementation over <random>. The draws themselves are checked by digest.
#include "image/transform/crop.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/checksum.h"
#include "image/testing/image_samples.h"

namespace forebay::image {
namespace {

using base::Purpose;
using base::Random;

std::array<double, 4> as_numbers(const Rect& crop) {
  return {static_cast<double>(crop.x), static_cast<double>(crop.y), static_cast<double>(crop.width),
          static_cast<double>(crop.height)};
}

// Compares with the mean and standard deviation of x, y, width and height in `line`, each of a
// million crops.
void expect_moments(const std::vector<Rect>& rects, std::istringstream& line) {
  const auto count = static_cast<double>(rects.size());
  for (size_t k = 0; k < 4; ++k) {
    double sum = 0;
    double square = 0;
    for (const Rect& rect : rects) {
      const double number = as_numbers(rect).at(k);
      sum += number;
      square += number * number;
    }
    double mean = 0;
    double deviation = 0;
    line >> mean >> deviation;
    const double ours = sum / count;
    EXPECT_NEAR(ours, mean, 5 * deviation * std::sqrt(1 / count + 1e-6) + 1e-6)
        << line.str() << ", figure " << k;
    EXPECT_NEAR(std::sqrt(std::max(0.0, square / count - ours * ours)), deviation,
                0.015 * deviation + 1e-3);
  }
}

TEST(DrawCrop, HasTorchvisionsMoments) {
  for (auto& line : golden_lines("image_crop.txt")) {
    uint32_t width = 0;
    uint32_t height = 0;
    line >> width >> height;
    Random random(1, Purpose::kTest, width, height);
    std::vector<Rect> crops(200'000);
    for (Rect& crop : crops) crop = draw_crop({}, width, height, random);
    expect_moments(crops, line);
  }
}

TEST(DrawErased, HasTorchvisionsMoments) {
  constexpr int kDraws = 400'000;
  for (auto& line : golden_lines("image_erasing.txt")) {
    uint32_t size = 0;
    double share = 0;
    line >> size >> share;
    Random random(1, Purpose::kTest, size);
    std::vector<Rect> erased;
    for (int i = 0; i < kDraws; ++i) {
      const auto rect = draw_erased({}, {size, size}, random);
      if (!rect) continue;
      ASSERT_TRUE(rect->inside(size, size));
      erased.push_back(*rect);
    }
    EXPECT_NEAR(static_cast<double>(erased.size()) / kDraws, share, 0.005);
    expect_moments(erased, line);
  }
}

TEST(DrawErased, FindsNothingToEraseOnASinglePixel) {
  Random random(1, Purpose::kTest);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(draw_erased({.probability = 1}, {1, 1}, random));
}

// The loop of torchvision, implemented over the standard library.
Rect reference_crop(uint32_t width, uint32_t height, std::mt19937_64& engine) {
  std::uniform_real_distribution<double> share(0.08, 1.0);
  std::uniform_real_distribution<double> log_ratio(std::log(3.0 / 4), std::log(4.0 / 3));
  for (int i = 0; i < 10; ++i) {
    const double area = double{1} * width * height * share(engine);
    const double ratio = std::exp(log_ratio(engine));
    const long w = std::lrint(std::sqrt(area * ratio));
    const long h = std::lrint(std::sqrt(area / ratio));
    if (w <= 0 || w > long{width} || h <= 0 || h > long{height}) continue;
    const long y = std::uniform_int_distribution<long>(0, height - h)(engine);
    const long x = std::uniform_int_distribution<long>(0, width - w)(engine);
    return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(w),
            static_cast<uint32_t>(h)};
  }
  return {};  // not reached for the sizes in this test
}

// Returns the largest distance of two empirical distribution functions.
double ks_distance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double worst = 0;
  const auto share = [](const std::vector<double>& v, double x) {
    const auto below = std::upper_bound(v.begin(), v.end(), x) - v.begin();
    return static_cast<double>(below) / static_cast<double>(v.size());
  };
  for (const double x : a) worst = std::max(worst, std::abs(share(a, x) - share(b, x)));
  return worst;
}

TEST(DrawCrop, IsDistributedAsTheStandardLibrarysVersion) {
  constexpr size_t kDraws = 50'000;
  for (const Size size : {Size{500, 375}, Size{375, 500}, Size{64, 64}}) {
    Random random(2, Purpose::kTest, size.width, size.height);
    std::mt19937_64 engine(5);
    std::array<std::vector<double>, 4> ours;
    std::array<std::vector<double>, 4> theirs;
    for (size_t i = 0; i < kDraws; ++i) {
      const auto a = as_numbers(draw_crop({}, size.width, size.height, random));
      const auto b = as_numbers(reference_crop(size.width, size.height, engine));
      for (size_t k = 0; k < 4; ++k) {
        ours[k].push_back(a[k]);
        theirs[k].push_back(b[k]);
      }
    }
    for (size_t k = 0; k < 4; ++k) {  // more than 2.0 has a probability of 0.0007; seeds are fixed
      EXPECT_LT(ks_distance(ours[k], theirs[k]), 2.0 * std::sqrt(2.0 / kDraws)) << k;
    }
  }
}

TEST(DrawCrop, StaysInsideAnyImage) {
  Random random(3, Purpose::kTest);
  const std::array<RandomResizedCrop, 4> options{RandomResizedCrop{}, RandomResizedCrop{1, 1, 1, 1},
                                                 RandomResizedCrop{0.001, 0.01, 50, 60},
                                                 RandomResizedCrop{0.5, 4, 0.02, 0.03}};
  for (uint32_t width = 1; width < 40; ++width) {
    for (uint32_t height = 1; height < 40; ++height) {
      for (const auto& option : options) {
        ASSERT_TRUE(draw_crop(option, width, height, random).inside(width, height));
      }
    }
  }
  EXPECT_TRUE(draw_crop({}, 16384, 4096, random).inside(16384, 4096));
}

TEST(DrawCrop, FallsBackToTheCentre) {
  Random random(4, Purpose::kTest);
  const RandomResizedCrop never{4, 5, 3.0 / 4, 4.0 / 3};  // larger than the image
  EXPECT_EQ(draw_crop(never, 1000, 100, random), (Rect{433, 0, 133, 100}));
  EXPECT_EQ(draw_crop(never, 100, 1000, random), (Rect{0, 433, 100, 133}));
  EXPECT_EQ(draw_crop(never, 100, 110, random), (Rect{0, 0, 100, 110}));
  EXPECT_EQ(draw_crop({}, 1, 500, random), (Rect{0, 249, 1, 1}));
}

// Forebay promises these seeded results on any compiler and machine.
TEST(DrawCrop, FirstThousandDrawsNeverChange) {
  base::ByteVector bytes;
  base::ByteWriter writer(&bytes);
  for (uint64_t sample = 0; sample < 1000; ++sample) {
    Random random(42, Purpose::kAugment, 0, sample);
    const auto width = static_cast<uint32_t>(1 + sample * 7 % 640);
    const Rect crop = draw_crop({}, width, 375, random);
    for (const uint32_t number : {crop.x, crop.y, crop.width, crop.height}) writer.number(number);
  }
  EXPECT_EQ(base::crc32c(bytes), 0x98C03226u);
}

// The expected numbers come from torchvision's formulas, computed by hand: int(256 * long / short),
// round((side - 224) / 2).
TEST(CentreWindow, EqualsTorchvision) {
  const auto expect = [](Size image, Size resized, int64_t x, int64_t y) {
    const auto size = resized_size(ShortSide{256}, image);
    ASSERT_TRUE(size);
    EXPECT_EQ(*size, resized);
    EXPECT_EQ(centre_viewport(*size, {224, 224}), (Viewport{x, y, {224, 224}}));
  };
  expect({500, 375}, {341, 256}, 58, 16);  // 58.5 rounds to even
  expect({375, 500}, {256, 341}, 16, 58);
  expect({500, 333}, {384, 256}, 80, 16);
  expect({32, 32}, {256, 256}, 16, 16);
  expect({259, 256}, {259, 256}, 18, 16);  // 17.5
  expect({1, 3}, {256, 768}, 16, 272);
  // (224 - 101) // 2 = 61 of the missing pixels are added on the left.
  EXPECT_EQ(centre_viewport({101, 500}, {224, 300}), (Viewport{-61, 100, {224, 300}}));
}

TEST(ResizedSize, IsTheImagesOrExact) {
  EXPECT_EQ(*resized_size({}, {7, 9}), (Size{7, 9}));
  EXPECT_EQ(*resized_size(Size{20, 10}, {7, 9}), (Size{20, 10}));
}

TEST(ResizedSize, RefusesStripsThatBecomeTooLong) {
  EXPECT_TRUE(resized_size(ShortSide{256}, {1, 64}));
  const auto strip = resized_size(ShortSide{256}, {1, 65});
  EXPECT_EQ(base::status_of(strip).code(), base::Code::kTooBig);
}

TEST(WholeSize, IsTheSamplesOrAnError) {
  EXPECT_EQ(*whole_size({}, {32, 30}, {32, 30}), (Size{32, 30}));
  EXPECT_EQ(*whole_size({ShortSide{16}}, {64, 65}, {16, 16}), (Size{16, 16}));
  EXPECT_EQ(*whole_size({Size{8, 9}}, {64, 65}, {8, 9}), (Size{8, 9}));
  for (const Size other : {Size{30, 32}, Size{33, 30}, Size{64, 60}}) {
    const auto size = whole_size({}, other, {32, 30});
    EXPECT_EQ(base::status_of(size).code(), base::Code::kInvalid);
    EXPECT_NE(base::status_of(size).message().find("are not the 32 x 30"), std::string::npos);
  }
  const auto resized = whole_size({ShortSide{16}}, {64, 80}, {16, 16});
  EXPECT_NE(base::status_of(resized).message().find("64 x 80 pixels, resized to 16 x 20, are not"),
            std::string::npos);
}

TEST(DrawWindow, EveryPlaceIsAsLikely) {
  std::array<int, 81> seen{};
  for (uint64_t sample = 0; sample < 81'000; ++sample) {
    Random random(3, Purpose::kTest, 0, sample);
    const auto viewport = draw_viewport({.padding = {4, 4, 4, 4}}, {32, 32}, {32, 32}, random);
    ASSERT_TRUE(viewport);
    ++seen.at(static_cast<size_t>((viewport->y + 4) * 9 + viewport->x + 4));
  }
  double chi_square = 0;
  for (const int count : seen) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 125);  // 80 degrees of freedom: 0.1 % is 124.8
}

// Returns the smallest and the largest place of many draws.
std::array<int64_t, 4> viewport_bounds(const RandomCrop& crop, Size image, Size size) {
  std::array<int64_t, 4> out{1 << 20, 1 << 20, -(1 << 20), -(1 << 20)};
  Random random(4, Purpose::kTest);
  for (int i = 0; i < 2000; ++i) {
    const auto viewport = draw_viewport(crop, image, size, random);
    EXPECT_TRUE(viewport);
    if (!viewport) break;
    EXPECT_EQ(viewport->size, size);
    out = {std::min(out[0], viewport->x), std::min(out[1], viewport->y),
           std::max(out[2], viewport->x), std::max(out[3], viewport->y)};
  }
  return out;
}

TEST(DrawWindow, TakesEachSidesPadding) {
  EXPECT_EQ(viewport_bounds({.padding = {1, 2, 3, 4}}, {20, 10}, {8, 9}),
            (std::array<int64_t, 4>{-1, -2, 15, 5}));
  EXPECT_EQ(viewport_bounds({}, {20, 10}, {20, 10}), (std::array<int64_t, 4>{0, 0, 0, 0}));
}

// Missing pixels are added on both sides, like in torchvision.
TEST(DrawWindow, PadsIfNeeded) {
  EXPECT_EQ(viewport_bounds({.pad_if_needed = true}, {20, 10}, {24, 9}),
            (std::array<int64_t, 4>{-4, 0, 0, 1}));
  EXPECT_EQ(viewport_bounds({.padding = {1, 0, 0, 0}, .pad_if_needed = true}, {20, 10}, {24, 16}),
            (std::array<int64_t, 4>{-4, -6, -1, 0}));
}

TEST(DrawWindow, RefusesImagesThatAreTooSmall) {
  Random random(5, Purpose::kTest);
  const auto message = [&](const RandomCrop& crop) {
    const auto viewport = draw_viewport(crop, {20, 10}, {24, 9}, random);
    EXPECT_EQ(base::status_of(viewport).code(), base::Code::kInvalid);
    return base::status_of(viewport).message();
  };
  EXPECT_NE(message({.padding = {1, 0, 2, 0}}).find("23 x 10"), std::string::npos);
  EXPECT_NE(message({.padding = {10, 10, 10, 10}, .border = {BorderKind::kReflect}})
                .find("wider than its mirror image"),
            std::string::npos);
  EXPECT_NE(message({.padding = {21, 0, 0, 0}, .border = {BorderKind::kSymmetric}})
                .find("wider than its mirror image"),
            std::string::npos);
  const RandomCrop fits{.padding = {20, 10, 20, 10}, .border = {BorderKind::kSymmetric}};
  EXPECT_TRUE(draw_viewport(fits, {20, 10}, {24, 9}, random));
}

}  // namespace
}  // namespace forebay::image
