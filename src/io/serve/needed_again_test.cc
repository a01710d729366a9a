#include "io/serve/needed_again.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/limits.h"
#include "base/random.h"

namespace forebay::io::serve {
namespace {

constexpr Again kSoon = Again::kSoon;
constexpr Again kLater = Again::kLater;

// Ranges of one run of memory, of these lengths in turn, from these offsets on.
std::vector<Range> ranges_of(const std::vector<WantedRange>& wanted, base::ByteVector* memory) {
  memory->resize(bytes_of(wanted));
  std::vector<Range> ranges;
  size_t at = 0;
  for (const WantedRange& range : wanted) {
    ranges.push_back(
        {range.offset, base::MutableBytes(*memory).subspan(at, range.length), range.again});
    at += range.length;
  }
  return ranges;
}

TEST(NeededAgain, NothingIsSaidWhereAllIsNeededSoon) {
  base::ByteVector memory;
  EXPECT_EQ(again_text(ranges_of({{0, 10}, {20, 10}}, &memory)), "");
  EXPECT_EQ(again_text(ranges_of({{0, 10}, {20, 10, kLater}}, &memory)), "10,10");
  EXPECT_EQ(again_text(ranges_of({{0, 10, kLater}, {10, 5}}, &memory)), "0,10");
  const std::vector<WantedRange> wanted{{0, 10}, {20, 10}};
  EXPECT_EQ(cut_by_again(wanted, "").value(), wanted);
  EXPECT_EQ(cut_by_again(wanted, "0,15").value(),
            (std::vector<WantedRange>{{0, 10, kLater}, {20, 5, kLater}, {25, 5, kSoon}}));
  EXPECT_EQ(cut_by_again(wanted, "4,2,5").value(),
            (std::vector<WantedRange>{{0, 4}, {4, 2, kLater}, {6, 4}, {20, 1}, {21, 9}}));
}

TEST(NeededAgain, WhatIsSaidIsUnderstood) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    base::Random random(seed, base::Purpose::kTest);
    std::vector<WantedRange> cuts;
    for (uint64_t at = 0; cuts.size() < 1 + seed % 40;) {
      at += random.below(3) == 0 ? 1 + random.below(1000) : 0;
      cuts.push_back({at, 1 + random.below(1000), random.below(2) == 0 ? kSoon : kLater});
      at += cuts.back().length;
    }
    base::ByteVector memory;
    const auto ranges = ranges_of(cuts, &memory);
    for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random.next_u32());
    std::vector<WantedRange> wanted;  // as they stand in the request
    for (const WantedRange& cut : cuts) {
      if (!wanted.empty() && wanted.back().offset + wanted.back().length == cut.offset) {
        wanted.back().length += cut.length;
      } else {
        wanted.push_back({cut.offset, cut.length});
      }
    }
    EXPECT_EQ(joined(ranges).size(), wanted.size());
    const auto understood = cut_by_again(wanted, again_text(ranges)).value();
    uint64_t at = 0;
    auto cut = cuts.begin();
    std::vector<HeldRange> held;
    for (const WantedRange& one : understood) {
      for (uint64_t i = 0; i < one.length; ++i) {
        while (one.offset + i >= cut->offset + cut->length) ++cut;
        ASSERT_EQ(one.again, cut->again);
      }
      held.push_back({.pieces = {{nullptr, one.offset, one.length}},
                      .crc32c = base::crc32c(base::Bytes(memory).subspan(at, one.length))});
      at += one.length;
    }
    const auto whole = join_held(wanted, understood, std::move(held));
    ASSERT_EQ(whole.size(), wanted.size());
    at = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(whole[i].crc32c, base::crc32c(base::Bytes(memory).subspan(at, wanted[i].length)));
      EXPECT_EQ(whole[i].pieces.front().offset, wanted[i].offset);
      at += wanted[i].length;
    }
  }
}

TEST(NeededAgain, AMalformedValueIsRefused) {
  const std::vector<WantedRange> wanted{{0, 10}, {20, 10}};
  for (const char* text :
       {",", "1,", ",1", "1,,1", "-1", "+1", " 1", "1 ,1", "1,0", "0,0", "1,0,1", "21", "10,11",
        "18446744073709551615,1", "1,18446744073709551615", "18446744073709551616", "x", "1;1"}) {
    EXPECT_EQ(base::status_of(cut_by_again(wanted, text)).code(), base::Code::kInvalid) << text;
  }
  EXPECT_TRUE(cut_by_again(wanted, "0,20").has_value());
  EXPECT_TRUE(cut_by_again(wanted, "0").has_value());
}

TEST(NeededAgain, WhatIsTooLongIsCutOff) {
  std::vector<WantedRange> cuts;
  for (uint64_t i = 0; i < 10'000; ++i) cuts.push_back({i, 1, i % 2 == 0 ? kSoon : kLater});
  base::ByteVector memory;
  const std::string text = again_text(ranges_of(cuts, &memory));
  EXPECT_LE(text.size(), base::kAgainTextBytesMax);
  EXPECT_GT(text.size(), base::kAgainTextBytesMax - 10);
  const auto understood = cut_by_again({{0, 10'000}}, text).value();
  EXPECT_EQ(understood[1].again, kLater);
  EXPECT_EQ(understood.back().again, kSoon);
}

}  // namespace
}  // namespace forebay::io::serve
