#include "cache/peers/handed_over.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace forebay::cache {
namespace {

TEST(HandedOver, KnowsTheSameAsAListOfBytes) {
  constexpr uint64_t kBytes = 200;
  constexpr uint64_t kSeed = 11;
  base::Random random(kSeed, base::Purpose::kTest);
  const FileId file{1};
  HandedOver handed_over;
  std::vector<std::string> expected(kBytes);  // the member of each byte
  for (int step = 0; step < 3000; ++step) {
    const uint64_t offset = random.below(kBytes);
    const uint64_t length = 1 + random.below(std::min<uint64_t>(40, kBytes - offset));
    const uint64_t what = random.below(4);
    const std::string member = what == 0 ? "" : "m" + std::to_string(what);
    if (what == 0) {
      handed_over.remove(file, offset, length);
    } else {
      EXPECT_TRUE(handed_over.add(file, offset, length, member));
    }
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(offset), length, member);
    const uint64_t begin = random.below(kBytes);
    const uint64_t end = begin + 1 + random.below(kBytes - begin);
    uint64_t at = begin;
    for (const auto& [part, bytes, holder] : handed_over.find(file, begin, end - begin)) {
      ASSERT_EQ(part, at) << "seed " << kSeed << ", step " << step;
      for (; at < part + bytes; ++at) {
        ASSERT_EQ(holder, expected[at]) << "seed " << kSeed << ", step " << step;
      }
    }
    ASSERT_EQ(at, end);
    ASSERT_EQ(handed_over.bytes(),
              kBytes - static_cast<uint64_t>(std::ranges::count(expected, "")));
  }
  EXPECT_EQ(handed_over.find({2}, 0, kBytes).size(), 1u);
  handed_over.keep_only({"m1", "m3"});
  std::ranges::replace(expected, "m2", "");
  for (uint64_t at = 0; at < kBytes; ++at) {
    EXPECT_EQ(handed_over.find(file, at, 1).front().member, expected[at]);
  }
  EXPECT_EQ(handed_over.bytes(), kBytes - static_cast<uint64_t>(std::ranges::count(expected, "")));
}

TEST(HandedOver, IsNoLongerThanItMayBe) {
  HandedOver handed_over;
  uint64_t offset = 0;
  while (handed_over.add({}, offset, 1, "m")) offset += 2;
  EXPECT_EQ(handed_over.bytes(), HandedOver::kRangesMost);
}

}  // namespace
}  // namespace forebay::cache
