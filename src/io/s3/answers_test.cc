#include "io/s3/answers.h"

#include <gmock/gmock.h>

#include "base/limits.h"

namespace forebay::io::s3 {
namespace {

// AWS writes a blank as "+" and a plus sign as "%2B"; other stores write a blank as "%20".
TEST(ListPage, HasNamesWithBlanksAndPlusSigns) {
  const auto page = parse_list_page(R"(<ListBucketResult><EncodingType>url</EncodingType>
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

std::string page_of(std::string_view entries) {
  return fmt::format("<ListBucketResult><EncodingType>url</EncodingType>{}</ListBucketResult>",
                     entries);
}

// A bug once: a store that does not encode keys lost its objects, or had their names changed.
TEST(ListPage, KeysAreDecodedOnlyWhereTheStoreSaysSo) {
  const auto page = parse_list_page(
      "<ListBucketResult><Contents><Key>a/x+y%20z%.jpg</Key></Contents></ListBucketResult>", "a/");
  ASSERT_TRUE(page.has_value()) << page.error().message();
  EXPECT_EQ(page->entries.at(0).name, "x+y%20z%.jpg");
}

// A bug once: such objects were left out of listings, so datasets were packed without them.
TEST(ListPage, KeysThatDoNotFitAreErrorsThatNameThem) {
  const auto error = [](std::string_view entries) {
    const auto page = parse_list_page(page_of(entries), "a/");
    return page ? "no error" : page.error().message();
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(error("<CommonPrefixes><Prefix>a//</Prefix></CommonPrefixes>"),
              AllOf(HasSubstr("the key a//,"), HasSubstr("an empty name"), HasSubstr("rename")));
  EXPECT_THAT(error("<CommonPrefixes><Prefix>a/b</Prefix></CommonPrefixes>"),
              HasSubstr("the key a/b, which is no folder"));
  EXPECT_THAT(error("<Contents><Key>b/c.jpg</Key></Contents>"),
              HasSubstr("b/c.jpg, which is not in the folder"));
  EXPECT_THAT(error("<Contents><Key>a/b/c.jpg</Key></Contents>"), HasSubstr("in another folder"));
  for (const char* const key : {"a/%zz.jpg", "a/%", "a/x%4"}) {
    EXPECT_THAT(error(fmt::format("<Contents><Key>{}</Key></Contents>", key)),
                AllOf(HasSubstr(key), HasSubstr("not encoded")));
  }
  EXPECT_THAT(error(fmt::format("<Contents><Key>a/{}</Key></Contents>", std::string(5000, 'k'))),
              HasSubstr("more than 4096 bytes"));
  // The folder's own object, which some programs make.
  EXPECT_EQ(error("<Contents><Key>a/</Key></Contents>"), "no error");
}

// A bug once: libcurl refuses texts of more than 8 MB, which ended the process.
TEST(Answers, HugeTextsAreRefused) {
  const std::string huge(base::kS3TokenBytesMax + 1, 't');
  const std::string longest(base::kS3TokenBytesMax, 't');
  const auto page = [](const std::string& token) {
    return base::status_of(parse_list_page(page_of(fmt::format("<IsTruncated>true</IsTruncated>"
                                                               "<NextContinuationToken>{}"
                                                               "</NextContinuationToken>",
                                                               token)),
                                           ""))
        .code();
  };
  const auto upload = [](const std::string& id) {
    return base::status_of(
               parse_upload_id(fmt::format("<InitiateMultipartUploadResult><UploadId>{}"
                                           "</UploadId></InitiateMultipartUploadResult>",
                                           id)))
        .code();
  };
  EXPECT_EQ(page(longest), base::Code::kOk);
  EXPECT_EQ(page(huge), base::Code::kTooBig);
  EXPECT_EQ(upload(longest), base::Code::kOk);
  EXPECT_EQ(upload(huge), base::Code::kTooBig);
  EXPECT_EQ(base::status_of(parse_uploads(fmt::format("<ListMultipartUploadsResult><Upload>"
                                                      "<Key>a</Key><UploadId>{}</UploadId></Upload>"
                                                      "</ListMultipartUploadsResult>",
                                                      huge),
                                          "a"))
                .code(),
            base::Code::kTooBig);
  for (const std::string& region : {huge, std::string("x.evil.example/"), std::string("a b")}) {
    EXPECT_EQ(parse_error(fmt::format("<Error><Region>{}</Region></Error>", region)).region, "");
  }
  EXPECT_EQ(parse_error("<Error><Region>eu-west_1</Region></Error>").region, "eu-west_1");
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
