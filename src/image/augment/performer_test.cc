// Actions give the same pixels with every instruction set, one by one or together, and no drawn
// parameter or size breaks them. tests/python/test_augmentations.py compares them with torchvision.
#include "image/augment/performer.h"

#include <cmath>
#include <numbers>

#include "image/augment/crop_first.h"
#include "image/augment/filter.h"
#include "image/augment/geometry.h"
#include "image/augment/steps.h"
#include "image/testing/image_samples.h"
#include "jpeg/testing/keep_to.h"

namespace forebay::image {
namespace {

Picture picture_of(const Pixels& pixels) {
  Picture out;
  out.reset({pixels.width, pixels.height});
  base::PixelRows rows;
  rows.pixels = pixels;
  for (uint32_t y = 0; y < pixels.height; ++y) out.set_row(y, rows.row(y), false);
  return out;
}

Pixels pixels_of(const Picture& picture) {
  Pixels out;
  out.reset(picture.size().width, picture.size().height);
  uint8_t* to = out.rgb.data();
  for (uint32_t y = 0; y < out.height; ++y) {
    for (uint32_t x = 0; x < out.width; ++x) {
      for (size_t channel = 0; channel < 3; ++channel) *to++ = picture.row(channel, y)[x];
    }
  }
  return out;
}

Pixels performed(Performer& performer, const Pixels& pixels, std::span<const Action> actions) {
  Picture picture = picture_of(pixels);
  performer.perform(actions, &picture);
  return pixels_of(picture);
}

// Steps of all kinds, with odd options too.
std::vector<Step> all_steps() {
  const WarpOptions smooth{Interpolation::kBilinear, std::array<float, 3>{0, 100.5F, 255}};
  const Range any{0, 3};
  std::vector<Step> out{
      ColourJitter{any, any, any, Range{-0.5, 0.5}},
      PhotometricDistortion{},
      ChannelPermutation{},
      RandomRotation{.degrees = {-180, 180}, .options = smooth},
      RandomRotation{.degrees = {-90, 90}, .options = {}, .centre = {{-40, 7}}},
      RandomAffine{.degrees = {-9, 9},
                   .translate = {{1, 1}},
                   .scale = Range{1e-6, 4},
                   .shear = {{Range{-89, 89}, Range{0, 0}}},
                   .options = smooth},
      RandomPerspective{.distortion = 1, .probability = 1},
      RandomPerspective{.distortion = 1, .probability = 1, .options = {}},
      AutoAugment{Policy::kCifar10},
      RandAugment{.count = 3, .magnitude = 30},
      TrivialAugmentWide{},
      AugMix{.severity = 10, .width = 2},
      Action(Sharpness{0}),
      Action(Sharpness{9}),
      Action(Grey{}),
      Action(Equalize{}),
      Action(Flip{true, true}),
      Cropping{RandomResizedCrop{}, {20, 30}},
      Cropping{RandomCrop{.pad_if_needed = true}, {50, 9}},
      Cropping{CentreCrop{}, {40, 41}, Interpolation::kBicubic},
      Cropping{WholeImage{ShortSide{17}}, {}, Interpolation::kNearest},
      Pad{{3, 0, 70, 1}, {.kind = BorderKind::kEdge}},
      RandomZoomOut{{1, 3}, {9, 8, 7}},
      ScaleJitter{{30, 20}},
      RandomShortestSize{{8, 40}, 60},
      RandomResize{3, 50},
      RandomRotation{.degrees = {-180, 180}, .options = smooth, .expand = true},
      RandomRotation{.degrees = {90, 90}, .expand = true},
      Action(Brightness{1.3}),
      Action(Hue{0.2}),
      RandomChoice{
          {1, 2, 3}, {Action(SolarizeAdd{40}), Action(Invert{}), ColourJitter{}}, 2, false},
      ChainMixture{2, 0, 1, {Action(Equalize{}), Action(Posterize{2}), RandomAffine{{-9, 9}}}},
      AugmentOp{.operation = Operation::kShearX, .slope = 3, .least = -9, .most = 9},
      AugmentOp{.operation = Operation::kBlurUpTo, .slope = 2, .least = 0.1, .most = 2},
  };
  out.emplace_back(RandomOrder{{Action(Solarize{100}), RandomApply{0.5, {Action(Invert{})}}}});
  return out;
}

struct Case {
  Pixels pixels;
  std::vector<Action> actions;
};

// Random sizes and steps; the case is the same for the same number.
Case make_case(uint32_t number) {
  base::Random random(number, base::Purpose::kTest);
  const auto side = [&] {
    return 1 + static_cast<uint32_t>(random.below(random.below(4) == 0 ? 4 : 90));
  };
  const Size size{side(), side()};
  const std::vector<Step> all = all_steps();
  std::vector<Step> steps;
  for (uint64_t count = 1 + random.below(3); count > 0; --count) {
    steps.push_back(all[random.below(all.size())]);
  }
  // A blur comes first, because it may not fit the size after other steps.
  const auto longest = [](uint32_t pixels) { return std::min(2 * pixels - 1, 23U); };
  if (random.below(4) == 0) {
    steps.insert(steps.begin(),
                 GaussianBlur{{longest(size.width), longest(size.height)}, {0.05, 9}});
  }
  EXPECT_TRUE(check_steps(steps, size).ok());
  return {make_image(size.width, size.height, number), *draw_actions(steps, size, random)};
}

TEST(Performer, IsTheSameWithEveryInstructionSet) {
  Performer performer;
  for (uint32_t number = 0; number < 2000; ++number) {
    const Case one = make_case(number);
    Pixels out[2];
    for (size_t best = 0; best < 2; ++best) {
      jpeg::keep_to(best != 0 ? jpeg::EntropyKernel::kAvx512 : jpeg::EntropyKernel::kAvx2);
      out[best] = performed(performer, one.pixels, one.actions);
    }
    ASSERT_EQ(out[0].rgb, out[1].rgb) << "case " << number;
  }
}

// A frame (which may show nothing of the picture), flips, and a resize of both.
std::vector<Action> frame_and_resize(Size size, base::Random& random) {
  const auto side = [&] { return 1 + static_cast<uint32_t>(random.below(120)); };
  const auto place = [&](uint32_t picture) {
    return static_cast<int64_t>(random.below(picture + 150)) - 150;
  };
  const Viewport viewport{place(size.width), place(size.height), {side(), side()}};
  Cut resize =
      whole_cut(viewport.size, {side(), side()}, static_cast<Interpolation>(random.below(3)));
  const auto kept = static_cast<uint32_t>(random.below(resize.resized.width));
  resize.kept.x = kept / 2;
  resize.kept.width -= kept;
  std::vector<Action> out{viewport_cut(size, size, viewport, {.fill = {1, 128, 254}})};
  if (random.below(2) == 0) out.emplace_back(Flip{random.below(2) == 0, random.below(2) == 0});
  out.emplace_back(resize);
  return out;
}

TEST(Performer, ResizesAFramedPictureAsIfItWereStored) {
  Performer performer;
  for (uint32_t number = 0; number < 3000; ++number) {
    base::Random random(number, base::Purpose::kTest);
    const Size size{1 + static_cast<uint32_t>(random.below(60)),
                    1 + static_cast<uint32_t>(random.below(60))};
    const Pixels pixels = make_image(size.width, size.height, number);
    const std::vector<Action> actions = frame_and_resize(size, random);
    Pixels step_by_step = pixels;
    for (const Action& action : actions) {
      step_by_step = performed(performer, step_by_step, {&action, 1});
    }
    ASSERT_EQ(performed(performer, pixels, actions).rgb, step_by_step.rgb) << "case " << number;
  }
}

TEST(Performer, PutsTonesTogetherWithoutChangingThem) {
  for (uint32_t number = 0; number < 500; ++number) {
    const Case one = make_case(number);
    Performer performer;
    Pixels step_by_step = one.pixels;
    for (const Action& action : one.actions) {
      step_by_step = performed(performer, step_by_step, {&action, 1});
    }
    ASSERT_EQ(performed(performer, one.pixels, one.actions).rgb, step_by_step.rgb)
        << "case " << number;
  }
}

TEST(CropFirst, LeavesThePixelsAsTheyAre) {
  size_t cropped = 0;
  for (uint32_t number = 0; number < 4000; ++number) {
    const Case one = make_case(number);
    Performer performer;
    const Size size{one.pixels.width, one.pixels.height};
    std::vector<Action> actions = one.actions;
    const Rect needed = crop_first(size, &actions);
    ASSERT_TRUE(needed.inside(size.width, size.height)) << "case " << number;
    cropped += needed != whole(size) ? 1 : 0;
    Pixels part = one.pixels;
    part.crop(needed);
    const Pixels made = performed(performer, part, actions);
    const Pixels expected = performed(performer, one.pixels, one.actions);
    ASSERT_EQ(made.width, expected.width) << "case " << number;
    ASSERT_EQ(made.rgb, expected.rgb) << "case " << number;
  }
  EXPECT_GT(cropped, 200U);
}

TEST(CropFirst, NeedsOnlyWhatAWarpShows) {
  const Size picture{400, 300};
  const Cut middle = viewport_cut(picture, picture, {180, 130, {40, 40}}, {});
  const Corners corners{{{0, 0}, {399, 0}, {399, 299}, {0, 299}}};
  const Corners moved{{{20, 9}, {390, 0}, {380, 290}, {0, 280}}};
  for (const Action& warp : {Action(AffineWarp{affine_map({.degrees = 30})}),
                             Action(AffineWarp{affine_map({.shear = {0.3, 0}})}),
                             Action(Perspective{projection_of(corners, moved)})}) {
    std::vector<Action> actions{warp, middle};
    const Rect needed = crop_first(picture, &actions);
    EXPECT_LT(needed.width, 75U);
    EXPECT_LT(needed.height, 75U);
    EXPECT_EQ(actions.size(), 1U);
  }
}

TEST(ChangeTone, ReplacesEachByteByItsTable) {
  base::Random random(5, base::Purpose::kTest);
  ToneTable table;
  for (auto& channel : table) {
    for (uint8_t& byte : channel) byte = static_cast<uint8_t>(random.below(256));
  }
  const Pixels pixels = make_image(130, 9, 2);
  Picture picture = picture_of(pixels);
  change_tone(table, &picture);
  const Pixels changed = pixels_of(picture);
  for (size_t i = 0; i < pixels.rgb.size(); ++i) {
    ASSERT_EQ(changed.rgb[i], table[i % 3][pixels.rgb[i]]) << i;
  }
}

TEST(BlurWeights, AreAGaussianWhoseSumIsOne) {
  for (const uint32_t length : {1U, 5U, 201U, 295U, 1023U}) {
    for (const double sigma : {0.01, 1.0, 30.0, 1e5}) {
      const std::vector<int16_t> weights = blur_weights(length, sigma);
      int sum = weights[0];
      for (size_t away = 1; away < weights.size(); ++away) {
        EXPECT_GE(weights[away], 0);
        EXPECT_LE(weights[away], weights[away - 1] + 1);
        sum += 2 * weights[away];
      }
      EXPECT_EQ(sum, 1 << kBlurBits) << length << " " << sigma;
    }
  }
}

TEST(Performer, DoesNothingWithoutActions) {
  Performer performer;
  const Pixels pixels = make_image(33, 5, 1);
  EXPECT_EQ(performed(performer, pixels, {}).rgb, pixels.rgb);
}

TEST(DrawActions, AreTheSameForTheSameStream) {
  const Size size{64, 48};
  const std::vector<Step> steps = all_steps();
  base::Random first(7, base::Purpose::kTest, 1, 2);
  base::Random second = first;
  const auto actions = *draw_actions(steps, size, first);
  ASSERT_EQ(actions.size(), draw_actions(steps, size, second)->size());
  EXPECT_EQ(first.next_u64(), second.next_u64());
}

TEST(SinCos, AreThoseOfTheStandardLibrary) {
  base::Random random(1, base::Purpose::kTest);
  for (int i = 0; i < 10'000; ++i) {
    const double degrees = (random.uniform() - 0.5) * (i % 2 == 0 ? 360 : 1e6);
    const auto [sin, cos] = sin_cos(degrees);
    const double radians = std::fmod(degrees, 360.0) * (std::numbers::pi / 180);
    ASSERT_NEAR(sin, std::sin(radians), 1e-14) << degrees;
    ASSERT_NEAR(cos, std::cos(radians), 1e-14) << degrees;
  }
  for (int quarter = -9; quarter < 9; ++quarter) {
    const auto [sin, cos] = sin_cos(90.0 * quarter);
    EXPECT_EQ(std::abs(sin) + std::abs(cos), 1) << quarter;
  }
}

TEST(Projection, ShowsCornersWhereTheyShouldBe) {
  const Corners from{{{0, 0}, {99, 0}, {99, 49}, {0, 49}}};
  const Corners to{{{5, 3}, {90, 1}, {80, 45}, {9, 40}}};
  const Projection map = projection_of(from, to);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto [x, y] = to[i];
    const double divisor = map.m[6] * x + map.m[7] * y + 1;
    EXPECT_NEAR((map.m[0] * x + map.m[1] * y + map.m[2]) / divisor, from[i][0], 1e-9);
    EXPECT_NEAR((map.m[3] * x + map.m[4] * y + map.m[5]) / divisor, from[i][1], 1e-9);
  }
}

TEST(Projection, IsTheIdentityWhereThereIsNone) {
  const Corners point{};
  EXPECT_EQ(projection_of(point, point).m, Projection().m);
}

}  // namespace
}  // namespace forebay::image
