#include "prep/server/held_tables.h"

#include <gtest/gtest.h>

namespace forebay::prep {
namespace {

using base::Code;

Table table(uint64_t first) {
  return table_of(feed::SampleList{
      .samples = std::vector<uint64_t>(100, first), .drawn_for = {}, .step_ends = {}});
}

Status put(HeldTables& held, const Table& whole, uint64_t offset, uint64_t bytes) {
  return held.put({.table = whole.name, .bytes = whole.bytes->size(), .offset = offset},
                  Bytes(*whole.bytes).subspan(offset, bytes));
}

TEST(HeldTables, PiecesMakeATable) {
  HeldTables held(10'000);
  const Table whole = table(1);
  const uint64_t all = whole.bytes->size();
  EXPECT_EQ(held.find(whole.name), nullptr);
  for (uint64_t offset = 0; offset < all; offset += 100) {
    EXPECT_EQ(held.find(whole.name), nullptr);
    ASSERT_TRUE(put(held, whole, offset, std::min<uint64_t>(100, all - offset)).ok());
    // Another host sends the same piece.
    ASSERT_TRUE(put(held, whole, 0, std::min<uint64_t>(100, all)).ok());
  }
  ASSERT_NE(held.find(whole.name), nullptr);
  EXPECT_EQ(*held.find(whole.name), *whole.bytes);
  // A piece that overlaps the bytes that are here, and goes on after them.
  const Table other = table(2);
  ASSERT_TRUE(put(held, other, 0, 300).ok());
  ASSERT_TRUE(put(held, other, 200, all - 200).ok());
  EXPECT_EQ(*held.find(other.name), *other.bytes);
}

TEST(HeldTables, TablesThatNobodyFinishesAreDropped) {
  HeldTables held(10'000);
  const Table half = table(1);
  const Table whole = table(2);
  ASSERT_TRUE(put(held, half, 0, 100).ok());
  ASSERT_TRUE(put(held, whole, 0, whole.bytes->size()).ok());
  held.drop_unfinished(0);
  EXPECT_TRUE(put(held, half, 100, 100).ok()) << "its pieces have just come";
  held.drop_unfinished(INT64_MAX);
  EXPECT_EQ(put(held, half, 200, 100).code(), Code::kUnavailable);
  EXPECT_NE(held.find(whole.name), nullptr);
}

TEST(HeldTables, PiecesThatDoNotFitAreRefused) {
  HeldTables held(10'000);
  const Table whole = table(1);
  const uint64_t all = whole.bytes->size();
  EXPECT_EQ(put(held, whole, 100, 100).code(), Code::kUnavailable);  // the beginning is missing
  ASSERT_TRUE(put(held, whole, 0, 100).ok());
  EXPECT_EQ(put(held, whole, 101, 100).code(), Code::kUnavailable);
  const TablePiece longer{.table = whole.name, .bytes = all + 1, .offset = 100};
  EXPECT_EQ(held.put(longer, Bytes(*whole.bytes).first(9)).code(), Code::kUnavailable);
  const TablePiece far{.table = whole.name, .bytes = all, .offset = UINT64_MAX};
  EXPECT_EQ(held.put(far, *whole.bytes).code(), Code::kInvalid);
  EXPECT_EQ(put(held, whole, 100, 0).code(), Code::kInvalid);
  EXPECT_EQ(held.put({.table = "x", .bytes = all, .offset = 0}, *whole.bytes).code(),
            Code::kInvalid);
  const TablePiece huge{.table = whole.name, .bytes = UINT64_MAX, .offset = 0};
  EXPECT_EQ(held.put(huge, *whole.bytes).code(), Code::kNoMemory);
  EXPECT_EQ(held.find(whole.name), nullptr);
}

TEST(HeldTables, ATableMustBeWhatItsNameSays) {
  HeldTables held(10'000);
  const Table whole = table(1);
  const Table other = table(2);
  const TablePiece lie{.table = whole.name, .bytes = whole.bytes->size(), .offset = 0};
  EXPECT_EQ(held.put(lie, *other.bytes).code(), Code::kUnavailable);
  EXPECT_EQ(held.find(whole.name), nullptr);
  EXPECT_TRUE(held.put(lie, *whole.bytes).ok());
  EXPECT_NE(held.find(whole.name), nullptr);
}

TEST(HeldTables, OldOnesMakeRoom) {
  const uint64_t each = table(0).bytes->size();
  HeldTables held(3 * each);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(put(held, table(i), 0, each).ok());
  EXPECT_NE(held.find(table(0).name), nullptr);  // it is the newest now
  ASSERT_TRUE(put(held, table(3), 0, each).ok());
  EXPECT_NE(held.find(table(0).name), nullptr);
  EXPECT_EQ(held.find(table(1).name), nullptr);
  EXPECT_NE(held.find(table(2).name), nullptr);
}

}  // namespace
}  // namespace forebay::prep
