// What a viewport shows equals NumPy's padding, and a walk pixel by pixel for all kinds and places.
#include "image/transform/border.h"

#include "base/checksum.h"
#include "base/random.h"
#include "image/testing/image_samples.h"

namespace forebay::image {
namespace {

using base::PlanarRow;

Pixels seen(const Pixels& image, const Viewport& viewport, const Border& border) {
  ViewportRows view;
  view.begin({image.width, image.height}, viewport, border);
  base::PixelRows part;
  part.pixels = image;
  part.pixels.crop(view.part());
  Pixels out;
  out.reset(viewport.size.width, viewport.size.height);
  std::vector<int> times(out.height);
  const auto take = [&](uint32_t at, const PlanarRow& row) {
    ++times.at(at);
    for (size_t i = 0; i < size_t{3} * out.width; ++i) {
      out.rgb[size_t{at} * out.width * 3 + i] = row[i % 3][i / 3];
    }
  };
  view.each_empty(take);
  for (uint32_t y = 0; y < part.height(); ++y) {
    const PlanarRow row = part.row(y);
    view.each_place(view.part().y + y, [&](uint32_t at) { take(at, view.cut(row)); });
  }
  EXPECT_EQ(std::ranges::count(times, 1), out.height);
  return out;
}

TEST(ViewportRows, EqualsNumpysReflection) {
  size_t count = 0;
  for (auto& line : golden_lines("image_padded.txt")) {
    uint32_t width = 0;
    uint32_t height = 0;
    uint32_t seed = 0;
    uint32_t padding = 0;
    Rect crop;
    std::string digest;
    line >> width >> height >> seed >> padding >> crop.x >> crop.y >> crop.width >> digest;
    crop.height = crop.width;
    const Pixels image = make_image(width, height, seed);
    const Viewport viewport{
        int64_t{crop.x} - padding, int64_t{crop.y} - padding, {crop.width, crop.height}};
    const Pixels out = seen(image, viewport, {.kind = BorderKind::kReflect});
    EXPECT_EQ(base::to_hex(base::sha256(out.rgb)), digest) << line.str();
    ++count;
  }
  EXPECT_EQ(count, 60u);
}

TEST(ViewportRows, EqualsAWalkPixelByPixel) {
  base::Random random(8, base::Purpose::kTest);
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    const auto kind = static_cast<BorderKind>(round % 4);
    const auto side = [&] { return static_cast<uint32_t>(1 + random.below(12)); };
    const Pixels image = make_image(side(), side(), static_cast<uint32_t>(round));
    const auto reach = [&](uint32_t pixels) -> int64_t {
      if (kind == BorderKind::kReflect) return pixels - 1;
      return kind == BorderKind::kSymmetric ? pixels : 15;
    };
    const int64_t x = reach(image.width);
    const int64_t y = reach(image.height);
    const auto place = [&](int64_t border, uint32_t pixels, uint32_t* size) {
      const auto whole = static_cast<uint64_t>(pixels + 2 * border);
      *size = static_cast<uint32_t>(1 + random.below(whole));
      return static_cast<int64_t>(random.below(whole - *size + 1)) - border;
    };
    Viewport viewport;
    viewport.x = place(x, image.width, &viewport.size.width);
    viewport.y = place(y, image.height, &viewport.size.height);
    const Border border{kind, {1, 2, 3}};
    ASSERT_EQ(seen(image, viewport, border).rgb, look(image, viewport, border).rgb);
  }
}

}  // namespace
}  // namespace forebay::image
