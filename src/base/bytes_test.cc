// Checked arithmetic, the bounded reader, and numbers for messages.
#include "base/bytes.h"

#include <gtest/gtest.h>

namespace forebay::base {
namespace {

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

}  // namespace
}  // namespace forebay::base
