// A joined cut gives the same pixels as its two cuts one after the other.
#include "image/transform/cut.h"

#include "image/testing/image_samples.h"

namespace forebay::image {
namespace {

Pixels performed(const Pixels& from, const Cut& cut) {
  base::PixelRows rows;
  rows.pixels = from;
  rows.pixels.crop(cut.region);
  Pixels out;
  out.reset(cut.size().width, cut.size().height);
  Cutter().cut(rows, whole(rows), cut, [&](uint32_t y, const PlanarRow& row) {
    for (size_t i = 0; i < size_t{3} * out.width; ++i) {
      out.rgb[size_t{y} * out.width * 3 + i] = row[i % 3][i / 3];
    }
  });
  return out;
}

Cut make_cut(Size picture, base::Random& random) {
  const auto below = [&](uint64_t most) { return static_cast<uint32_t>(random.below(most)); };
  const Size size{1 + below(30), 1 + below(30)};
  const Border border{random.below(2) == 0 ? BorderKind::kConstant : BorderKind::kEdge, {7, 8, 9}};
  switch (random.below(4)) {
    case 0:
      return *draw_cut(RandomResizedCrop{}, size, picture, random);
    case 1:
      return whole_cut(picture, size, Interpolation::kNearest);
    case 2: {
      const Padding padding{below(9), below(9), below(9), below(9)};
      const RandomCrop crop{.padding = padding, .pad_if_needed = true, .border = border};
      return *draw_cut(crop, size, picture, random);
    }
    default: {
      const uint32_t x = below(picture.width);
      const uint32_t y = below(picture.height);
      const Size part{1 + below(picture.width - x), 1 + below(picture.height - y)};
      return viewport_cut(picture, picture, {x, y, part}, {});
    }
  }
}

TEST(Joined, HasThePixelsOfBothCuts) {
  size_t joins = 0;
  size_t with_border = 0;
  for (uint32_t number = 0; number < 5000; ++number) {
    base::Random random(number, base::Purpose::kTest);
    const Size size{1 + static_cast<uint32_t>(random.below(40)),
                    1 + static_cast<uint32_t>(random.below(40))};
    const Cut first = make_cut(size, random);
    const Cut second = make_cut(first.size(), random);
    const std::optional<Cut> both = joined(first, second);
    if (!both) continue;
    ++joins;
    with_border += first.outside ? 1 : 0;
    const Pixels image = make_image(size.width, size.height, number);
    ASSERT_TRUE(both->region.inside(size.width, size.height)) << number;
    const Pixels expected = performed(performed(image, first), second);
    const Pixels made = performed(image, *both);
    ASSERT_EQ(made.width, expected.width) << number;
    ASSERT_EQ(made.rgb, expected.rgb) << number;
  }
  EXPECT_GT(joins, 1000U);
  EXPECT_GT(with_border, 100U);
}

}  // namespace
}  // namespace forebay::image
