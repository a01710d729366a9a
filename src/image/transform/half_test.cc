// Every float16, and the float32 between two of them, by the definition of the format.
#include "image/transform/half.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forebay::image {
namespace {

constexpr uint16_t kInfinity = 0x7c00;
constexpr uint16_t kSign = 0x8000;

// Returns the value by IEEE 754-2008, 3.4. For infinity, returns the number that would come next.
float value_of(uint16_t bits) {
  const int exponent = bits >> 10;
  const int fraction = bits & 1023;
  return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                       : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

TEST(Float16, IsItsValue) {
  for (uint16_t bits = 0; bits < kInfinity; ++bits) {
    ASSERT_EQ(from_float16(bits), value_of(bits)) << bits;
    ASSERT_EQ(from_float16(bits | kSign), -value_of(bits)) << bits;
    ASSERT_EQ(to_float16(value_of(bits)), bits);
    ASSERT_EQ(to_float16(-value_of(bits)), bits | kSign);
  }
  EXPECT_EQ(from_float16(kInfinity), HUGE_VALF);
  EXPECT_EQ(from_float16(kInfinity | kSign), -HUGE_VALF);
  EXPECT_TRUE(std::signbit(from_float16(kSign)));
}

TEST(Float16, IsTheNearestOfAFloat32) {
  for (uint16_t bits = 0; bits < kInfinity; ++bits) {
    const auto next = static_cast<uint16_t>(bits + 1);
    const float middle = (value_of(bits) + value_of(next)) / 2;
    ASSERT_EQ(to_float16(middle), bits % 2 == 0 ? bits : next);
    ASSERT_EQ(to_float16(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(to_float16(std::nextafter(middle, HUGE_VALF)), next);
    ASSERT_EQ(to_float16(-std::nextafter(middle, 0.0F)), bits | kSign);
  }
  for (const float large : {65536.0F, 1e6F, 3e38F, HUGE_VALF}) {
    EXPECT_EQ(to_float16(large), kInfinity);
    EXPECT_EQ(to_float16(-large), kInfinity | kSign);
  }
}

}  // namespace
}  // namespace forebay::image
