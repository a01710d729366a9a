#include "feed/read/spare_buffers.h"

#include <gtest/gtest.h>

namespace forebay::feed {
namespace {

TEST(SpareBuffers, ASliceGetsNoBufferThatIsMuchLarger) {
  for (const uint64_t bytes : {10'000u, 280'000u, 900'000u}) {
    SpareBuffers spare;
    spare.keep(io::LargeBuffer(2 << 20), 2 << 20);
    EXPECT_LE(spare.take(bytes).size(), bytes + bytes / 8 + (64 << 10)) << bytes;
    EXPECT_EQ(spare.take(1'800'000).size(), 2u << 20);  // still there
  }
}

TEST(SpareBuffers, TheSmallestThatFitsIsUsedAgain) {
  SpareBuffers spare;
  const uint8_t* small = nullptr;
  for (const uint64_t bytes : {340'000u, 300'000u, 320'000u, 200'000u}) {
    io::LargeBuffer buffer(bytes);
    if (bytes == 300'000) small = buffer.data();
    spare.keep(std::move(buffer), bytes);
  }
  EXPECT_EQ(spare.take(290'000).data(), small);
  spare.shrink_to(0);
  EXPECT_LT(spare.take(200'000).size(), 210'000u);
}

}  // namespace
}  // namespace forebay::feed
