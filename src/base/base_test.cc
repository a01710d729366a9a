// base/: numbers that stored bytes and orders depend on, against published values.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/limits.h"
#include "base/pixels.h"
#include "base/random.h"
#include "base/status.h"
#include "base/utf8.h"

namespace forebay::base {
namespace {

TEST(Crc32c, MatchesRfc3720Examples) {
  EXPECT_EQ(crc32c(ByteVector(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ByteVector(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283u);
}

TEST(Crc32c, ContinuesFromASeed) {
  const Bytes whole = as_bytes("a forebay evens out the flow");
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    EXPECT_EQ(crc32c(whole.subspan(cut), crc32c(whole.first(cut))), crc32c(whole));
  }
}

TEST(Sha256, MatchesFips180Example) {
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, ReadsOnlyItsOwnHex) {
  const Sha256 sum = sha256(as_bytes("x"));
  EXPECT_EQ(sha256_from_hex(to_hex(sum)).value(), sum);
  EXPECT_FALSE(sha256_from_hex(""));
  EXPECT_FALSE(sha256_from_hex(to_hex(sum).substr(1)));
  EXPECT_FALSE(sha256_from_hex(std::string(63, 'a') + "G"));
}

// The known-answer vectors that come with Random123 1.14 (kat_vectors, philox4x32 10).
TEST(Philox, MatchesKnownAnswers) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, BelowIsUniform) {
  Random random(1, Purpose::kTest);
  std::array<int, 7> count{};
  for (int i = 0; i < 70000; ++i) ++count[random.below(count.size())];
  for (const int n : count) EXPECT_NEAR(n, 10000, 500);
}

TEST(Random, StreamsOfDifferentNamesDiffer) {
  Random a(1, Purpose::kTest, 0, 0);
  Random b(1, Purpose::kTest, 0, 1);
  Random c(1, Purpose::kTest, 1, 0);
  Random d(2, Purpose::kTest, 0, 0);
  Random e(1, Purpose::kAugment, 0, 0);
  const uint64_t first = a.next_u64();
  for (Random* other : {&b, &c, &d, &e}) EXPECT_NE(other->next_u64(), first);
}

TEST(Random, ShuffleGivesEveryPermutation) {
  std::array<int, 6> seen{};
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Random random(seed, Purpose::kTest);
    std::array<int, 3> items{0, 1, 2};
    shuffle(std::span<int>(items), random);
    ++seen.at(static_cast<size_t>(items[0]) * 2 + (items[1] > items[2] ? 1 : 0));
  }
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
}

TEST(Bytes, CheckedArithmeticSeesOverflow) {
  EXPECT_EQ(checked_add(1, 2), 3u);
  EXPECT_FALSE(checked_add(~0ull, 1));
  EXPECT_FALSE(checked_mul(1ull << 32, 1ull << 32));
  EXPECT_TRUE(in_bounds(10, 0, 10));
  EXPECT_FALSE(in_bounds(10, 1, 10));
  EXPECT_FALSE(in_bounds(~0ull, 2, 10));
}

TEST(Bytes, ReaderStopsAtTheEnd) {
  ByteVector data;
  ByteWriter writer(&data);
  writer.number<uint32_t>(7);
  writer.sized("key");
  ByteReader reader(data);
  EXPECT_EQ(reader.number<uint32_t>(), 7u);
  EXPECT_EQ(reader.sized(3), "key");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.number<uint64_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  ByteReader short_limit(Bytes(data).subspan(4));
  EXPECT_EQ(short_limit.sized(2), "");
  EXPECT_FALSE(short_limit.ok());
}

TEST(Bytes, HumanBytes) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KB");
  EXPECT_EQ(human_bytes(999'960), "1.0 MB");
}

TEST(Bytes, Counted) {
  EXPECT_EQ(counted(0, "chunk"), "0 chunks");
  EXPECT_EQ(counted(1, "chunk"), "1 chunk");
  EXPECT_EQ(counted(2, "class"), "2 classes");
}

Result<int> half(int n) {
  if (n % 2 != 0) return fail(Code::kInvalid, "{} is odd", n);
  return n / 2;
}
Status quarter(int n, int* out) {
  ASSIGN_OR_RETURN(const int h, half(n));
  ASSIGN_OR_RETURN(*out, half(h));
  return {};
}

TEST(Status, CarriesItsMessageUp) {
  int out = 0;
  EXPECT_TRUE(quarter(8, &out).ok());
  EXPECT_EQ(out, 2);
  const Status status = quarter(6, &out).at("quarter");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(), "quarter: 3 is odd");
}

TEST(Pixels, CropKeepsTheRegionsRows) {
  Pixels pixels;
  pixels.reset(3, 4);
  for (size_t i = 0; i < pixels.rgb.size(); ++i) pixels.rgb[i] = static_cast<uint8_t>(i);
  pixels.crop({1, 2, 2, 2});
  EXPECT_EQ(pixels.width, 2U);
  EXPECT_EQ(pixels.height, 2U);
  EXPECT_EQ(pixels.rgb, (ByteVector{21, 22, 23, 24, 25, 26, 30, 31, 32, 33, 34, 35}));
}

TEST(Pixels, ImageSizesHaveLimits) {
  EXPECT_TRUE(check_image_size("X", kImageSideMax, kImagePixelsMax / kImageSideMax).ok());
  EXPECT_EQ(check_image_size("X", kImageSideMax + 1, 1).code(), Code::kTooBig);
  EXPECT_EQ(check_image_size("X", 1, kImageSideMax + 1).code(), Code::kTooBig);
  EXPECT_EQ(check_image_size("X", kImageSideMax, kImagePixelsMax / kImageSideMax + 1).code(),
            Code::kTooBig);
}

TEST(Utf8, WhatIsNoneIsShownByItsBytes) {
  for (const std::string_view good : {"", "plain", "\u00fcmlaut/\u65e5\u672c \U0001f600"}) {
    EXPECT_TRUE(is_utf8(good));
    EXPECT_EQ(to_utf8(good), good);
  }
  // Latin-1; an overlong slash; a surrogate; beyond the last character; cut off.
  EXPECT_EQ(to_utf8("caf\xe9.jpg"), "caf\\xe9.jpg");
  for (const std::string_view bad : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe6\x97"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_TRUE(is_utf8(to_utf8(bad)));
  }
}

}  // namespace
}  // namespace forebay::base
