// All kernels equal libjpeg-turbo on images of every size up to 130 x 130 in every subsampling.
#include <algorithm>
#include <cstdlib>

#include "jpeg/testing/decode_batch.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::Purpose;
using base::Random;

constexpr uint32_t kLargestSide = 130;
// Above kSmall, one size in kShare is decoded, with each width and each height at least once
// (multiples of 7 have all remainders). With FOREBAY_TEST_ALL, all sizes are decoded.
constexpr uint32_t kShare = 97;
constexpr uint32_t kSmall = 12;

struct Sampling {
  std::string_view name;
  Sample sample;
};
std::ostream& operator<<(std::ostream& out, const Sampling& of) { return out << of.name; }
const Sampling kSamplings[] = {
    {"444", {}},
    {"422", {.across = 2}},
    {"440", {.down = 2}},
    {"420", {.across = 2, .down = 2}},
    {"411", {.across = 4}},
    {"410", {.across = 4, .down = 2}},
    {"Grey", {.components = 1}},
    {"GreyWithFactors", {.components = 1, .across = 2, .down = 2}},
    {"Rgb", {.rgb = true}},
    {"RgbFineRed", {.across = 2, .down = 2, .rgb = true}},
    {"3x1", {.across = 3}},
    {"1x3", {.down = 3}},
    {"3x2", {.across = 3, .down = 2}},
    {"2x3", {.across = 2, .down = 3}},
    {"1x4", {.down = 4}},
    {"2x4", {.across = 2, .down = 4}},
    {"422FineChroma", {.across = 2, .down = 2, .chroma = {{{1, 2}, {1, 2}}}}},
    {"EachItsOwn", {.across = 2, .down = 2, .chroma = {{{2, 1}, {1, 2}}}}},
    {"FineChroma", {.chroma = {{{2, 2}, {2, 2}}}}},
    {"FineBlue", {.down = 2, .chroma = {{{4, 1}, {1, 1}}}}},
};

// Makes a smooth image, noise, or both. Values wrap around, so that there are edges.
std::vector<uint8_t> random_rows(const Sample& sample, Random& random) {
  const auto channels = static_cast<uint32_t>(sample.components);
  std::array<uint32_t, 4> right{};
  std::array<uint32_t, 4> down{};
  for (size_t c = 0; c < channels; ++c) {
    right[c] = static_cast<uint32_t>(random.below(15));
    down[c] = static_cast<uint32_t>(random.below(15));
  }
  const uint32_t noise = std::array<uint32_t, 6>{0, 3, 15, 63, 128, 255}[random.below(6)];
  uint64_t state = random.next_u64();
  std::vector<uint8_t> rows(size_t{sample.width} * sample.height * channels);
  uint8_t* to = rows.data();
  for (uint32_t y = 0; y < sample.height; ++y) {
    for (uint32_t x = 0; x < sample.width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t value =
            right[c] * x + down[c] * y + (static_cast<uint32_t>(state >> 56) & noise);
        *to++ = static_cast<uint8_t>(value);
      }
    }
  }
  return rows;
}

// Draws a crop. Most crops begin and end at borders of blocks, where samples beyond the border
// matter.
base::Rect random_crop(uint32_t width, uint32_t height, Random& random) {
  const base::Rect any = random_region(width, height, random);
  const uint32_t unit = 1u << random.below(6);
  const auto end = [unit](uint32_t at, uint32_t side) {
    return std::min((at + unit - 1) / unit * unit, side);
  };
  base::Rect crop{.x = any.x / unit * unit, .y = any.y / unit * unit};
  crop.width = end(any.x + any.width, width) - crop.x;
  crop.height = end(any.y + any.height, height) - crop.y;
  return crop;
}

class DecodeSizes : public testing::TestWithParam<Sampling> {};

TEST_P(DecodeSizes, EqualTurbo) {
  const auto number = static_cast<uint32_t>(
      std::ranges::find(kSamplings, GetParam().name, &Sampling::name) - kSamplings);
  const bool all = std::getenv("FOREBAY_TEST_ALL") != nullptr;
  DecodeBatch batch;
  size_t count = 0;
  for (uint32_t width = 1; width <= kLargestSide; ++width) {
    for (uint32_t height = 1; height <= kLargestSide; ++height) {
      const bool chosen = (width + 7 * height) % kShare == number;
      if (!all && !chosen && std::max(width, height) > kSmall) continue;
      // The content of an image does not depend on which others are decoded.
      Random random(number, Purpose::kTest, width, height);
      Sample sample = GetParam().sample;
      sample.width = width;
      sample.height = height;
      sample.quality = 1 + static_cast<int>(random.below(100));
      const uint64_t mcus = (width + 7) / 8 * ((height + 7) / 8);
      if (random.below(3) != 0) sample.restart = 1 + static_cast<int>(random.below(mcus + 2));
      switch (random.below(8)) {
        case 0:
          sample.optimised = true;
          break;
        case 1:
          sample.tables = [&random](bool ac) { return random_table(ac, random); };
          break;
        default:
          break;
      }
      std::vector<uint8_t> rows = random_rows(sample, random);
      batch.add(encode_jpeg(sample, rows), random_crop(width, height, random), sample.name());
      ++count;
      if (HasFailure()) return;
    }
  }
  batch.check();
  RecordProperty("images", static_cast<int>(count));
}

INSTANTIATE_TEST_SUITE_P(Every, DecodeSizes, testing::ValuesIn(kSamplings));

}  // namespace
}  // namespace forebay::jpeg
