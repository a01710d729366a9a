#include "train/sync/encoding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "train/sync/floats.h"

namespace forebay::train {
namespace {

std::vector<float> draw(base::Random& random, size_t count) {
  std::vector<float> numbers(count);
  const double size = std::pow(10.0, random.uniform() * 80 - 45);  // down to subnormal numbers
  for (float& value : numbers) value = static_cast<float>((random.uniform() - 0.5) * size);
  return numbers;
}

base::ByteVector encoded(Encoding encoding, std::span<float> numbers) {
  base::ByteVector bytes(encoded_bytes(encoding, numbers.size()));
  encode(encoding, numbers, bytes.data());
  return bytes;
}

std::vector<float> decoded(Encoding encoding, base::Bytes bytes, size_t count) {
  std::vector<float> out(count, 7);
  decode(encoding, bytes, out);
  return out;
}

TEST(Encoding, WhatIsLeftOfNumbersIsWhatArrives) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    base::Random random(seed, base::Purpose::kTest);
    const auto encoding = static_cast<Encoding>(seed % 3);
    std::vector<float> numbers = draw(random, random.below(700));
    std::vector<float> parts = numbers;
    const base::ByteVector bytes = encoded(encoding, numbers);
    const std::vector<float> arrived = decoded(encoding, bytes, numbers.size());
    EXPECT_EQ(arrived, numbers) << seed;
    encoded(encoding, numbers);  // encoding again changes nothing
    EXPECT_EQ(arrived, numbers) << seed;
    const size_t first = std::min<size_t>(parts.size(), random.below(3) * kEncodedBlock);
    base::ByteVector both = encoded(encoding, std::span(parts).first(first));
    const base::ByteVector rest = encoded(encoding, std::span(parts).subspan(first));
    both.insert(both.end(), rest.begin(), rest.end());
    EXPECT_EQ(both, bytes) << seed;
  }
}

TEST(Encoding, RoundingIsWithinHalfAStepOfTheLargest) {
  base::Random random(1, base::Purpose::kTest);
  std::vector<float> numbers(1000);
  for (float& value : numbers) value = static_cast<float>(random.uniform() - 0.5);
  std::vector<float> rounded = numbers;
  encoded(Encoding::kInt8, rounded);
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(rounded[i], numbers[i], 0.5 * 0.5 / 126.9) << i;
  }
}

TEST(Encoding, TheLargestOfEachBlockAreKept) {
  std::vector<float> numbers(256 + 20);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i % 256) * (i % 2 == 0 ? 1 : -1);
  }
  std::vector<float> rounded = numbers;
  encoded(Encoding::kTop, rounded);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const bool is_kept = i < 256 ? i >= 240 : i >= 256 + 4;
    EXPECT_NEAR(rounded[i], is_kept ? numbers[i] : 0, 1.01) << i;
  }
  std::vector<float> equal(256, 3);
  encoded(Encoding::kTop, equal);
  EXPECT_EQ(std::count(equal.begin(), equal.end(), 0.0F), 256 - 16);
}

TEST(Encoding, WhatIsNotFiniteStaysSo) {
  for (const Encoding encoding : {Encoding::kFloat32, Encoding::kInt8, Encoding::kTop}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> numbers(300, 1);
      numbers[290] = bad;
      const base::ByteVector bytes = encoded(encoding, numbers);
      EXPECT_FALSE(all_finite(numbers));
      const std::vector<float> arrived = decoded(encoding, bytes, numbers.size());
      EXPECT_FALSE(all_finite(arrived));
      EXPECT_TRUE(all_finite(std::span(arrived).first(256)));
    }
  }
}

TEST(Encoding, BytesOfANumber) {
  EXPECT_EQ(encoded_bytes(Encoding::kFloat32, 300), 1200u);
  EXPECT_EQ(encoded_bytes(Encoding::kInt8, 300), 256u + 4 + 44 + 4);
  EXPECT_EQ(encoded_bytes(Encoding::kTop, 300), 2 * 36u);
  EXPECT_EQ(encoded_bytes(Encoding::kTop, 256 + 5), 36u + 4 + 10);
  EXPECT_EQ(encoded_bytes(Encoding::kTop, 0), 0u);
}

}  // namespace
}  // namespace forebay::train
