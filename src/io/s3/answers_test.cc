#include "io/s3/answers.h"

#include <gmock/gmock.h>

namespace forebay::io::s3 {
namespace {

// AWS writes a blank as "+" and a plus sign as "%2B"; other stores write a blank as "%20".
TEST(ListPage, HasNamesWithBlanksAndPlusSigns) {
  const auto page = parse_list_page(R"(<ListBucketResult>
    <Contents><Key>a+b/x+y%2Bz.jpg</Key><Size>7</Size></Contents>
    <Contents><Key>a%20b/100%25.jpg</Key><Size>8</Size></Contents>
    <CommonPrefixes><Prefix>a+b/tench,+Tinca/</Prefix></CommonPrefixes>
    </ListBucketResult>)",
                                    "a b/");
  ASSERT_TRUE(page.has_value()) << page.error().message();
  std::vector<std::string> names;
  for (const DirEntry& entry : page->entries) names.push_back(entry.name);
  EXPECT_THAT(names, ::testing::ElementsAre("x y+z.jpg", "100%.jpg", "tench, Tinca"));
}

}  // namespace
}  // namespace forebay::io::s3
