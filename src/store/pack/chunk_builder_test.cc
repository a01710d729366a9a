// Images that pack does not rewrite: kept with a reason, or refused.
#include "store/pack/chunk_builder.h"

#include <gmock/gmock.h>

#include "store/export.h"
#include "store/pack/pack.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A bug once: each image had a reason of its own, "JPEG: JPEG: byte 1234: …".
TEST(Pack, KeptImagesAreCountedByFewReasons) {
  io::MemoryFileSystem fs;
  make_source(fs, 2);
  for (uint32_t i = 0; i < 3; ++i) {
    ByteVector film = test_jpeg(60 + i, 50, i);
    film.insert(film.end(), 100 + i, 'f');
    put(fs, fmt::format("src/cat/film{}.jpg", i), film);
  }
  const auto report = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  const std::string why = "JPEG: more data after the image (MPO, motion photo)";
  EXPECT_THAT(report->stats.kept, testing::ElementsAre(testing::Pair(why, 3u)));
  EXPECT_THAT(report->stats.kept_jpegs, SizeIs(3));
  EXPECT_THAT(describe(*report), HasSubstr("kept as they were: 3 (" + why + ")"));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  // The export gives back such a file unchanged.
  ASSERT_TRUE(export_dataset(fs, "out", fs, "back", {}));
  EXPECT_EQ(fs.content("back/cat/film1.jpg"), fs.content("src/cat/film1.jpg"));
}

// A file whose pixels are whole is never refused. If it cannot be rewritten, it is kept as it is.
TEST(Pack, OddJpegsAreRewrittenOrKept) {
  io::MemoryFileSystem fs;
  const ByteVector image = test_jpeg(90, 70, 1);
  const ByteVector no_end(image.begin(), image.end() - 2);
  put(fs, "src/cat/no_end.jpg", no_end);
  ByteVector stray = image;
  stray.insert(stray.begin() + 20, 5, 'x');  // after JFIF's segment
  put(fs, "src/cat/stray.jpg", stray);
  const auto report = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->stats.refused, IsEmpty());
  EXPECT_EQ(report->stats.rewritten, 1u);
  ASSERT_THAT(report->stats.kept_jpegs, SizeIs(1));
  EXPECT_THAT(report->stats.kept_jpegs[0].path, HasSubstr("stray.jpg"));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  ASSERT_TRUE(export_dataset(fs, "out", fs, "back", {}));
  EXPECT_EQ(fs.content("back/cat/stray.jpg"), stray);
}

TEST(Pack, DamagedJpegsAreRefusedOrKept) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  ByteVector cut = test_jpeg(90, 70, 1);
  cut.resize(cut.size() * 2 / 3);
  put(fs, "src/cat/cut.jpg", cut);
  ByteVector headless = cut;
  headless.resize(100);
  put(fs, "src/cat/headless.jpg", headless);
  PackOptions options = small_chunks();
  options.skip_max = {.value = 2, .is_percent = false};
  const auto refusing = pack(fs, "src", "refused", options);
  ASSERT_TRUE(refusing) << refusing.error().message();
  EXPECT_THAT(refusing->stats.refused, SizeIs(2));
  options.keep_damaged = true;
  const auto keeping = pack(fs, "src", "kept", options);
  ASSERT_TRUE(keeping) << keeping.error().message();
  EXPECT_THAT(keeping->stats.refused, SizeIs(1));  // libjpeg cannot decode it
  ASSERT_THAT(keeping->stats.kept_jpegs, SizeIs(1));
  EXPECT_EQ(keeping->stats.kept_jpegs[0].reason, "JPEG: damaged");
  EXPECT_THAT(keeping->stats.kept_jpegs[0].path, HasSubstr("cut.jpg"));
  // The file's bytes are unchanged, and its pixels are damaged.
  EXPECT_THAT(damages(fs, "kept", false), IsEmpty());
  EXPECT_THAT(damages(fs, "kept"), SizeIs(1));
  ASSERT_TRUE(export_dataset(fs, "kept", fs, "back", {}));
  EXPECT_EQ(fs.content("back/cat/cut.jpg"), cut);
  // A pack that was begun with one value of --damaged cannot be resumed with the other.
  const auto other = pack(fs, "src", "refused", options);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("--damaged"));
}

}  // namespace
}  // namespace forebay::store
