#include "io/large_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>

namespace forebay::io {
namespace {

TEST(LargeBuffer, IsAlignedAndAllWritable) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{5000}, size_t{1} << 20, size_t{5'000'001}}) {
    const LargeBuffer buffer(bytes);
    ASSERT_GE(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kDirectAlignment, 0u);
    std::fill_n(buffer.data(), buffer.size(), uint8_t{1});
  }
  EXPECT_THROW(LargeBuffer(size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace forebay::io
