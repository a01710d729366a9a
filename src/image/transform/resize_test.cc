// Resizing equals digests of PyTorch's own output, and resized regions equal the whole.
#include "image/transform/resize.h"

#include <malloc.h>

#include <map>

#include "base/checksum.h"
#include "base/random.h"
#include "image/testing/image_samples.h"
#include "jpeg/testing/keep_to.h"

namespace forebay::image {
namespace {

void resize(Resizer& resizer, const Pixels& from, Size size, const Rect& kept, Pixels* to) {
  base::PixelRows rows;
  rows.pixels = from;
  resizer.resize(rows, whole(rows), size, kept, to);
}

TEST(Resize, EqualsPyTorch) {
  std::map<std::string, Resizer> resizers;
  resizers.emplace("bilinear", Interpolation::kBilinear);
  resizers.emplace("bicubic", Interpolation::kBicubic);
  resizers.emplace("nearest", Interpolation::kNearest);
  Pixels out;
  size_t count = 0;
  for (auto& line : golden_lines("image_resize.txt")) {
    uint32_t width = 0;
    uint32_t height = 0;
    Size size;
    uint32_t seed = 0;
    std::string mode;
    std::string digest;
    line >> mode >> width >> height >> size.width >> size.height >> seed >> digest;
    const Rect all{0, 0, size.width, size.height};
    resize(resizers.at(mode), make_image(width, height, seed), size, all, &out);
    EXPECT_EQ(base::to_hex(base::sha256(out.rgb)), digest) << line.str();
    ++count;
  }
  EXPECT_EQ(count, 3 * 240u);
}

Pixels cut(const Pixels& whole, const Rect& region) {
  Pixels out;
  out.reset(region.width, region.height);
  for (size_t y = 0; y < region.height; ++y) {
    std::memcpy(out.rgb.data() + y * region.width * 3,
                whole.rgb.data() + ((region.y + y) * whole.width + region.x) * 3,
                size_t{region.width} * 3);
  }
  return out;
}

// Enlarges and shrinks, until the pixels of a group of outputs are too far apart for one window.
TEST(Resize, IsTheSameWithEveryInstructionSet) {
  base::Random random(4, base::Purpose::kTest);
  Resizer resizers[2] = {Resizer(Interpolation::kBilinear), Resizer(Interpolation::kBicubic)};
  for (int i = 0; i < 500; ++i) {
    const Size size{1 + static_cast<uint32_t>(random.below(70)), 3};
    const double scale = 0.2 + 8 * random.uniform();
    const Pixels from =
        make_image(1 + static_cast<uint32_t>(scale * size.width), 5, static_cast<uint32_t>(i));
    const uint32_t x = static_cast<uint32_t>(random.below(size.width));
    const Rect kept{x, 0, 1 + static_cast<uint32_t>(random.below(size.width - x)), size.height};
    Pixels out[2];
    for (size_t best = 0; best < 2; ++best) {
      jpeg::keep_to(best != 0 ? jpeg::EntropyKernel::kAvx512 : jpeg::EntropyKernel::kAvx2);
      resize(resizers[i % 2], from, size, kept, &out[best]);
    }
    ASSERT_EQ(out[0].rgb, out[1].rgb) << from.width << " to " << size.width << ", from " << x;
  }
}

TEST(Resize, KeptRegionEqualsTheWholeCut) {
  base::Random random(3, base::Purpose::kTest);
  const auto side = [&](uint64_t bound) { return 1 + static_cast<uint32_t>(random.below(bound)); };
  Resizer kept_resizers[3] = {Resizer(Interpolation::kBilinear), Resizer(Interpolation::kBicubic),
                              Resizer(Interpolation::kNearest)};
  for (int i = 0; i < 900; ++i) {
    const Pixels from = make_image(side(90), side(90), static_cast<uint32_t>(i));
    Size size{side(90), side(90)};
    if (i % 5 == 0) size.width = from.width;
    if (i % 7 == 0) size.height = from.height;
    Rect kept{0, 0, side(size.width), side(size.height)};
    kept.x = side(size.width - kept.width + 1) - 1;
    kept.y = side(size.height - kept.height + 1) - 1;
    Pixels whole;
    Pixels out;
    Resizer fresh(static_cast<Interpolation>(i % 3));
    resize(fresh, from, size, {0, 0, size.width, size.height}, &whole);
    resize(kept_resizers[i % 3], from, size, kept, &out);
    ASSERT_EQ(out.rgb, cut(whole, kept).rgb) << i;
  }
}

TEST(Resize, SameSizeIsACopy) {
  const Pixels from = make_image(32, 32, 2);
  Pixels out;
  Resizer resizer;
  resize(resizer, from, {32, 32}, {0, 0, 32, 32}, &out);
  EXPECT_EQ(out.rgb, from.rgb);
}

// Returns the weights of an antialiased triangle around each output's place in a box.
std::vector<std::map<int, double>> naive_weights(double begin, double length, int in,
                                                 uint32_t out) {
  std::vector<std::map<int, double>> all(out);
  const double scale = length / out;
  const double support = std::max(scale, 1.0);
  for (uint32_t i = 0; i < out; ++i) {
    const double centre = begin + (i + 0.5) * scale;
    double total = 0;
    for (int at = 0; at < in; ++at) {
      const double weight = 1 - std::abs(at + 0.5 - centre) / support;
      if (weight > 0) total += all[i][at] = weight;
    }
    for (auto& [at, weight] : all[i]) weight /= total;
  }
  return all;
}

TEST(Resize, BoxEqualsANaiveFilter) {
  base::Random random(8, base::Purpose::kTest);
  const auto side = [&](uint64_t bound) { return 1 + static_cast<uint32_t>(random.below(bound)); };
  Resizer resizer;
  for (int i = 0; i < 200; ++i) {
    base::PixelRows from;
    from.pixels = make_image(side(60), side(60), 2 * static_cast<uint32_t>(i));
    const double width = from.width();
    const double height = from.height();
    Box box{.x = random.uniform() * 0.9, .y = random.uniform() * 0.9};
    box.width = width - box.x - random.uniform() * 0.09;
    box.height = height - box.y - random.uniform() * 0.09;
    const Size size{side(40), side(40)};
    Pixels out;
    resizer.resize(from, box, size, {0, 0, size.width, size.height}, &out);
    const auto across = naive_weights(box.x, box.width, static_cast<int>(width), size.width);
    const auto down = naive_weights(box.y, box.height, static_cast<int>(height), size.height);
    for (size_t at = 0; at < out.rgb.size(); ++at) {
      const size_t pixel = at / 3;
      double expected = 0;
      for (const auto& [y, wy] : down[pixel / size.width]) {
        for (const auto& [x, wx] : across[pixel % size.width]) {
          const size_t source = static_cast<size_t>(y) * from.width() + static_cast<size_t>(x);
          expected += wy * wx * from.pixels.rgb[source * 3 + at % 3];
        }
      }
      ASSERT_NEAR(out.rgb[at], expected, 1.6) << i;
    }
  }
}

// Returns the allocated bytes. The allocators of sanitizers do not count them.
size_t allocated() {
  const auto all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

// A 1 x 16384 image whose short side becomes 256 is four million pixels high; only 224 rows are
// kept.
TEST(Resize, ThinImageTakesNoMemoryForWhatIsNotKept) {
  const Pixels from = make_image(1, 16384, 4);
  Pixels out;
  Resizer resizer;
  const size_t before = allocated();
  resize(resizer, from, {256, 16384 * 256}, {16, 2'000'000, 224, 224}, &out);
  EXPECT_EQ(out.rgb.size(), 224u * 224 * 3);
  EXPECT_LT(allocated(), before + (size_t{2} << 20));  // a byte for each output would be more
}

}  // namespace
}  // namespace forebay::image
