// Tests the limit on the samples that pack may refuse.
#include "store/pack/skip_max.h"

#include <gmock/gmock.h>

#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(SkipMax, IsANumberOrAShare) {
  EXPECT_EQ(to_text(SkipMax()), "1%");
  for (const char* text : {"0", "200", "0%", "0.5%", "100%"}) {
    const auto parsed = parse_skip_max(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(to_text(*parsed), text);
  }
  for (const char* text : {"", "%", "-1", "1.5", "101%", "nan%", "inf", "5 %", "5%%", "x"}) {
    EXPECT_EQ(base::status_of(parse_skip_max(text)).code(), Code::kInvalid) << text;
  }
  EXPECT_TRUE(SkipMax().allows(1, 100));
  EXPECT_FALSE(SkipMax().allows(2, 199));
  EXPECT_TRUE(parse_skip_max("2")->allows(2, 2));
  EXPECT_FALSE(parse_skip_max("2")->allows(3, 1'000'000));
  EXPECT_FALSE(parse_skip_max("0")->allows(1, 1'000'000));
}

// A bug once: pack succeeded although it refused half of a folder.
TEST(Pack, RefusingMoreThanAllowedIsAnErrorThatKeepsTheRest) {
  io::MemoryFileSystem fs;
  make_source(fs, 24);
  put(fs, "src/dog/text.jpg", base::as_bytes("no image"));
  PackOptions allowing = small_chunks();
  allowing.skip_max = *parse_skip_max("1");
  ASSERT_TRUE(pack(fs, "src", "expected", allowing));
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kCorrupt);
  for (const char* part : {"refused 1 of 25 samples (4.0 %)", "--skip-max 1% allows",
                           "dog/text.jpg: not a JPEG", "with --skip-max 1 completes"}) {
    EXPECT_THAT(refused.error().message(), HasSubstr(part));
  }
  EXPECT_FALSE(fs.stat("out/HEAD"));
  EXPECT_TRUE(fs.stat("out/journal"));
  EXPECT_EQ(base::status_of(open_packed(fs, "out")).code(), Code::kNotFound);
  // Not a byte of the source is read again.
  for (const auto& [path, data] : contents(fs, "src")) fs.content(path).assign(data.size(), 0);
  const auto completed = pack(fs, "src", "out", allowing);
  ASSERT_TRUE(completed) << completed.error().message();
  EXPECT_EQ(completed->chunks_resumed, completed->chunks);
  EXPECT_THAT(completed->stats.refused, SizeIs(1));
  EXPECT_FALSE(fs.stat("out/journal"));
  std::map<std::string, ByteVector> out;
  for (const auto& [path, data] : contents(fs, "expected")) out["out" + path.substr(8)] = data;
  EXPECT_EQ(contents(fs, "out"), out);
  // A dataset that was completed with a larger limit stays complete.
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks())->was_complete);
}

TEST(Pack, FoldersBesideShardsAreNotCountedAsRefused) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("a.jpg", test_jpeg(40, 30, 1), &tar);
  append_tar_end(&tar);
  put(fs, "src/x.tar", tar);
  put(fs, "src/cats/1.jpg", base::as_bytes("x"));
  const auto report = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_THAT(report->remarks, SizeIs(1));
  EXPECT_EQ(report->remarks[0].path, "cats");
}

}  // namespace
}  // namespace forebay::store
