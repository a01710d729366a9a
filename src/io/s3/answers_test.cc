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

TEST(ListPage, TimesThatMakeNoSenseAreNotKnown) {
  for (const auto& [time, expected] : {std::pair{"2026-11-24T18:13:51.000Z", 1'795'544'031},
                                       {"9999-12-31T23:59:59Z", 0},
                                       {"yesterday", 0}}) {
    const std::string xml = fmt::format(
        "<ListBucketResult><Contents><Key>a</Key><LastModified>{}</LastModified></Contents>"
        "</ListBucketResult>",
        time);
    const auto page = parse_list_page(xml, "");
    ASSERT_TRUE(page.has_value());
    EXPECT_EQ(page->entries.at(0).info->modified_ns, expected * 1'000'000'000ll) << time;
  }
}

TEST(Uploads, AreThoseOfExactlyOneKey) {
  constexpr std::string_view kPage = R"(<ListMultipartUploadsResult><Prefix>a/b</Prefix>
    <Upload><Key>a/b</Key><UploadId>1</UploadId></Upload>
    <Upload><Key>a/b</Key><UploadId>2</UploadId></Upload>
    <Upload><Key>a/bc</Key><UploadId>3</UploadId></Upload>
    </ListMultipartUploadsResult>)";
  EXPECT_THAT(parse_uploads(kPage, "a/b").value(), ::testing::ElementsAre("1", "2"));
  EXPECT_FALSE(parse_uploads("<Error/>", "a/b"));
  EXPECT_THAT(parse_parts("<ListPartsResult><Part><ETag>x</ETag></Part></ListPartsResult>").value(),
              ::testing::ElementsAre("x"));
  EXPECT_FALSE(parse_parts(""));
}

}  // namespace
}  // namespace forebay::io::s3
