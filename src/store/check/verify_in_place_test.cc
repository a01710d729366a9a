#include <gmock/gmock.h>

#include "store/check/verify.h"
#include "store/source/index_file.h"
#include "store/testing/in_place_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A bug once: without --pixels only sizes were compared, and such files were "no damage".
TEST(VerifyInPlace, DecodesEveryImageWithAndWithoutAnIndex) {
  io::MemoryFileSystem fs;
  ByteVector cut = test_jpeg(200, 200, 1);
  cut.resize(cut.size() / 2);
  put(fs, "/set/a/cut.jpg", cut);
  put(fs, "/set/a/empty.jpg", {});
  put(fs, "/set/a/good.jpg", test_jpeg(40, 30, 2));
  put(fs, "/set/a/text.jpg", base::as_bytes("no image"));
  const auto expected =
      ElementsAre(HasSubstr("cut.jpg"), HasSubstr("empty.jpg"), HasSubstr("text.jpg"));
  EXPECT_THAT(damages(fs, "/set", false), expected);
  for (const bool checksums : {false, true}) {
    ASSERT_TRUE(write_index(fs, "/set", {.checksums = checksums, .threads = 1}));
    EXPECT_THAT(damages(fs, "/set", false), expected);
    EXPECT_EQ(verify(fs, "/set", {.threads = 1, .progress = {}})->images_decoded, 4u);
  }
}

TEST(VerifyInPlace, SaysThatAnIndexIsOutOfDate) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", test_jpeg(40, 30, 2));
  ASSERT_TRUE(write_index(fs, "/set", {.checksums = true, .threads = 1}));
  fs.set_modified("/set/a", 1);
  const auto report = verify(fs, "/set", {.threads = 1, .progress = {}});
  EXPECT_THAT(report->damages, testing::IsEmpty());
  EXPECT_THAT(report->notes,
              ElementsAre(HasSubstr("so neither the index nor its checksums were used")));
}

TEST(VerifyInPlace, GoesOnAfterAShardThatIsCut) {
  io::MemoryFileSystem fs;
  put_folders_in_shards(fs, "/set");
  fs.content("/set/x-0.tar").resize(fs.content("/set/x-0.tar").size() - 1600);
  put(fs, "/set/x-2.tar", {});
  ByteVector tar;
  add_member("a/1.jpg", test_jpeg(40, 30, 1), &tar);
  add_member("a/1.cls", base::as_bytes("many"), &tar);
  add_member("a/2.txt", base::as_bytes("no image"), &tar);
  append_tar_end(&tar);
  put(fs, "/set/x-3.tar", tar);
  EXPECT_EQ(base::status_of(open_dataset(fs, "/set")).code(), Code::kCorrupt);
  for (const std::string source : {"/set", "/set/x-{0..4}.tar"}) {
    const auto report = verify(fs, source, {.threads = 1, .progress = {}});
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->samples, 2u) << "those of the shard that is whole";
    std::vector<std::string> found;
    for (const Damage& damage : report->damages) found.push_back(describe(damage));
    std::vector<testing::Matcher<std::string>> expected{
        HasSubstr("/set/x-0.tar: truncated: member cat/0.jpg"), HasSubstr("/set/x-2.tar: "),
        HasSubstr("\"a/2\": no image"), HasSubstr("\"a/1.jpg\": .cls: \"many\" is not a class")};
    if (source != "/set") expected.insert(expected.begin() + 2, HasSubstr("/set/x-4.tar: "));
    EXPECT_THAT(found, testing::ElementsAreArray(expected));
  }
  const auto alone = verify(fs, "/set/x-2.tar", {.threads = 1, .progress = {}});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->damages.size(), 1u);
}

}  // namespace
}  // namespace forebay::store
