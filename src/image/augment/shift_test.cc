// Shifter, for maps that move rows or columns as a whole, gives Warper's pixels, and quarter turns
// move each pixel to its place.
#include "image/augment/shift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "image/augment/turn.h"

namespace forebay::image {
namespace {

Picture random_picture(Size size, base::Random& random) {
  Picture out;
  out.reset(size);
  for (size_t channel = 0; channel < 3; ++channel) {
    for (uint32_t y = 0; y < size.height; ++y) {
      for (uint32_t x = 0; x < size.width; ++x) {
        out.row(channel, y)[x] = static_cast<uint8_t>(random.next_u32());
      }
    }
  }
  return out;
}

int most_levels_apart(const Picture& one, const Picture& other) {
  int out = one.size() == other.size() ? 0 : 256;
  for (size_t channel = 0; out < 256 && channel < 3; ++channel) {
    for (uint32_t y = 0; y < one.size().height; ++y) {
      for (uint32_t x = 0; x < one.size().width; ++x) {
        out = std::max(out, std::abs(one.row(channel, y)[x] - other.row(channel, y)[x]));
      }
    }
  }
  return out;
}

Size random_size(base::Random& random) {
  const auto side = [&] {
    return 1 + static_cast<uint32_t>(random.below(random.below(3) == 0 ? 4 : 150));
  };
  return {side(), side()};
}

// A translation, by whole pixels or not, or a shear, or both.
Affine random_map(Size size, base::Random& random) {
  const auto within = [&](double most) { return (2 * random.uniform() - 1) * most; };
  Affine out;
  out.m[2] = within(1.2 * size.width);
  out.m[5] = within(1.2 * size.height);
  if (random.below(3) == 0) out.m[2] = std::nearbyint(out.m[2]);
  if (random.below(3) == 0) out.m[5] = std::nearbyint(out.m[5]);
  const uint64_t shear = random.below(3);
  if (shear == 1) out.m[1] = within(2);
  if (shear == 2) out.m[3] = within(2);
  return out;
}

WarpOptions random_options(base::Random& random) {
  WarpOptions out;
  if (random.below(3) > 0) out.interpolation = Interpolation::kBilinear;
  if (random.below(2) == 0) out.fill = {0, 100.5F, 255};
  return out;
}

TEST(Shifter, GivesWhatAnyMapGives) {
  Shifter shifter;
  Warper warper;
  uint32_t shifted = 0;
  for (uint32_t number = 0; number < 3000; ++number) {
    base::Random random(number, base::Purpose::kTest);
    const Picture from = random_picture(random_size(random), random);
    const Affine map = random_map(from.size(), random);
    const WarpOptions options = random_options(random);
    Picture made;
    if (!shifter.shift(from, map, options, whole_window(from.size()), &made)) continue;
    ++shifted;
    Picture expected;
    warper.warp(from, map, options, whole_window(from.size()), from.size(), &expected);
    const bool nearest = options.interpolation == Interpolation::kNearest;
    ASSERT_LE(most_levels_apart(made, expected), nearest ? 0 : 1) << "case " << number;
  }
  EXPECT_GT(shifted, 2000u);
}

TEST(Shifter, LeavesOtherMapsAlone) {
  Shifter shifter;
  base::Random random(1, base::Purpose::kTest);
  const Picture from = random_picture({9, 7}, random);
  Picture made;
  const WarpWindow window = whole_window(from.size());
  const WarpOptions smooth{Interpolation::kBilinear};
  EXPECT_FALSE(shifter.shift(from, {{1, 0.1, 0, 0.1, 1, 0}}, smooth, window, &made));
  EXPECT_FALSE(shifter.shift(from, {{1.1, 0, 0, 0, 1, 0}}, smooth, window, &made));
  EXPECT_FALSE(shifter.shift(from, {{1, NAN, 0, 0, 1, 0}}, smooth, window, &made));
  EXPECT_FALSE(shifter.shift(from, {{1, 0, 2.4999, 0, 1, 0}}, {}, window, &made));
  EXPECT_TRUE(shifter.shift(from, {{1, 0, 1e300, 0, 1, -1e300}}, smooth, window, &made));
}

TEST(Turn, MovesEachPixelToItsPlace) {
  for (uint32_t number = 0; number < 300; ++number) {
    base::Random random(number, base::Purpose::kTest);
    const Picture from = random_picture(random_size(random), random);
    const auto [width, height] = from.size();
    for (uint32_t quarters = 0; quarters < 5; ++quarters) {
      Picture made;
      turn(from, quarters, &made);
      ASSERT_EQ(made.size(), quarters % 2 == 0 ? from.size() : (Size{height, width}));
      for (uint32_t y = 0; y < height; ++y) {
        for (uint32_t x = 0; x < width; ++x) {
          // Where the pixel at (x, y) is after this many counter-clockwise quarter turns.
          std::array<uint32_t, 2> at{x, y};
          if (quarters % 4 == 1) at = {y, width - 1 - x};
          if (quarters % 4 == 2) at = {width - 1 - x, height - 1 - y};
          if (quarters % 4 == 3) at = {height - 1 - y, x};
          ASSERT_EQ(made.row(1, at[1])[at[0]], from.row(1, y)[x]) << number << " " << quarters;
        }
      }
    }
  }
}

}  // namespace
}  // namespace forebay::image
