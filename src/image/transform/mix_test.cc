// Mixing follows torchvision's formulas, computed here sample by sample.
// tests/python/test_transforms.py compares with torchvision itself.
#include "image/transform/mix.h"

#include <cmath>

#include "image/testing/image_samples.h"
#include "image/transform/half.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

// Converts the numbers of a batch to floats, and back.
std::vector<float> numbers_of(const ByteVector& bytes, DType dtype) {
  std::vector<float> out(bytes.size() / dtype_bytes(dtype));
  for (size_t i = 0; i < out.size(); ++i) {
    if (dtype == DType::kUint8) out[i] = bytes[i];
    if (dtype == DType::kFloat32) out[i] = base::load_le<float>(bytes.data() + 4 * i);
    if (dtype_bytes(dtype) == 2) {
      const auto bits = base::load_le<uint16_t>(bytes.data() + 2 * i);
      out[i] = dtype == DType::kFloat16 ? from_float16(bits) : from_bfloat16(bits);
    }
  }
  return out;
}

float rounded(float value, DType dtype) {
  if (dtype == DType::kFloat16) return from_float16(to_float16(value));
  return dtype == DType::kBfloat16 ? from_bfloat16(to_bfloat16(value)) : value;
}

// Makes a batch of numbers between -2 and 2, or of bytes.
ByteVector make_batch(const BatchShape& shape, uint64_t seed) {
  const size_t count = shape.samples * shape.size.width * shape.size.height * 3;
  Random random(seed, Purpose::kTest);
  ByteVector out;
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(4 * random.uniform() - 2);
    if (shape.dtype == DType::kUint8) {
      out.push_back(static_cast<uint8_t>(random.next_u32()));
    } else {
      const uint32_t bits = shape.dtype == DType::kFloat16
                                ? uint32_t{to_float16(value)} << 16
                                : std::bit_cast<uint32_t>(rounded(value, shape.dtype));
      for (size_t byte = 4 - dtype_bytes(shape.dtype); byte < 4; ++byte) {
        out.push_back(static_cast<uint8_t>(bits >> 8 * byte));
      }
    }
  }
  return out;
}

// Returns the index of number i of the sample before.
size_t before(size_t i, size_t samples, size_t numbers) {
  return (i + (samples - 1) * numbers) % (samples * numbers);
}

TEST(MixImages, EqualsTheFormula) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const BatchShape& shape : {BatchShape{5, {37, 61}, dtype}, BatchShape{1, {3, 2}, dtype},
                                    BatchShape{2, {64, 64}, dtype}}) {
      ByteVector batch = make_batch(shape, 1);
      const auto old = numbers_of(batch, dtype);
      const Mix mix{.kind = MixKind::kMixUp, .own = 0.3};
      ASSERT_TRUE(mix_images(mix, shape, batch.data()).ok());
      const auto mixed = numbers_of(batch, dtype);
      for (size_t i = 0; i < old.size(); ++i) {
        const float other = old[before(i, shape.samples, old.size() / shape.samples)];
        const float sum = rounded(other * 0.7F, dtype) + rounded(old[i] * 0.3F, dtype);
        ASSERT_EQ(mixed[i], rounded(sum, dtype)) << i;
      }
    }
  }
}

TEST(MixImages, CutsTheBoxAndNothingElse) {
  const Rect box{3, 5, 9, 4};
  const Size size{17, 13};
  for (const DType dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      const BatchShape shape{4, size, dtype, layout};
      ByteVector batch = make_batch(shape, 2);
      const auto old = numbers_of(batch, dtype);
      const Mix mix{.kind = MixKind::kCutMix, .own = 0.5, .box = box};
      ASSERT_TRUE(mix_images(mix, shape, batch.data()).ok());
      const auto mixed = numbers_of(batch, dtype);
      for (size_t i = 0; i < old.size(); ++i) {
        const size_t pixel = (layout == Layout::kNchw ? i : i / 3) % (17 * 13);
        const size_t x = pixel % 17;
        const size_t y = pixel / 17;
        const bool inside = x >= 3 && x < 12 && y >= 5 && y < 9;
        ASSERT_EQ(mixed[i], old[inside ? before(i, 4, 17 * 13 * 3) : i]) << i;
      }
    }
  }
}

TEST(MixImages, RefusesAMeanOfBytes) {
  const BatchShape shape{2, {4, 4}, DType::kUint8};
  ByteVector batch = make_batch(shape, 3);
  EXPECT_EQ(mix_images({}, shape, batch.data()).code(), base::Code::kInvalid);
}

TEST(MixLabels, SumToOne) {
  std::vector<float> labels{1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0};
  mix_labels({.own = 0.25}, 4, 3, labels.data());
  EXPECT_EQ(labels,
            (std::vector<float>{0.25F, 0.75F, 0, 0.75F, 0, 0.25F, 0, 0.25F, 0.75F, 0, 1, 0}));
}

TEST(DrawMix, TheBoxIsTheRestOfTheArea) {
  const MixChoice choice{.kind = MixKind::kCutMix};
  size_t empty = 0;
  for (uint64_t step = 0; step < 5000; ++step) {
    const Mix mix = draw_mix({&choice, 1}, {23, 40}, {1, Purpose::kMix, 0, step});
    const Rect box = mix.box.value_or(Rect{});
    EXPECT_EQ(mix.own, 1 - box.width * box.height / (23.0 * 40));
    if (mix.box) {
      ASSERT_TRUE(box.inside(23, 40));
    } else {
      ++empty;
    }
  }
  EXPECT_GT(empty, 0u);
  EXPECT_LT(empty, 500u);
}

TEST(DrawMix, ChoosesByWeight) {
  const std::array<MixChoice, 4> choices{{{.kind = MixKind::kCutMix, .weight = 3},
                                          {.kind = MixKind::kMixUp, .weight = 1},
                                          {.kind = MixKind::kMixUp, .alpha = 1e9, .weight = 4},
                                          {.kind = MixKind::kCutMix, .alpha = 1e9, .weight = 0}}};
  int cuts = 0;
  int halves = 0;
  constexpr int kCount = 20'000;
  for (uint64_t step = 0; step < kCount; ++step) {
    const Mix mix = draw_mix(choices, {100, 100}, {2, Purpose::kMix, 1, step});
    cuts += mix.kind == MixKind::kCutMix ? 1 : 0;
    halves += std::abs(mix.own - 0.5) < 1e-3 && mix.kind == MixKind::kMixUp ? 1 : 0;
  }
  EXPECT_NEAR(cuts, kCount * 3 / 8.0, 4 * std::sqrt(kCount * 15 / 64.0));
  EXPECT_NEAR(halves, kCount / 2.0, 4 * std::sqrt(kCount / 4.0) + kCount / 8.0 * 0.002);
}

}  // namespace
}  // namespace forebay::image
