// Packs that make large images smaller: which images change, which stay, the report, and the
// resumption of an interrupted pack.
#include <gmock/gmock.h>

#include "base/limits.h"
#include "image/testing/golden_files.h"
#include "io/testing/faulty.h"
#include "jpeg/testing/psnr.h"
#include "store/check/inspect.h"
#include "store/export.h"
#include "store/format/snapshot.h"
#include "store/in_place_dataset.h"
#include "store/pack/pack.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

PackOptions smaller(uint64_t short_side, int threads = 1) {
  PackOptions options = small_chunks(threads);
  options.resize = {.short_side = short_side};
  options.skip_max = {.value = 100};
  return options;
}

// Packs. The pack must succeed.
PackReport packed(io::FileSystem& fs, const std::string& dataset, const PackOptions& options) {
  const auto report = pack(fs, "src", dataset, options);
  EXPECT_TRUE(report) << report.error().message();
  EXPECT_THAT(damages(fs, dataset, !options.keep_damaged), IsEmpty());
  return report ? *report : PackReport();
}

// The stored files of a dataset, by their names in the chunks' tars.
std::map<std::string, ByteVector> stored_files(const io::Origin& fs, const std::string& dataset) {
  const auto opened = open_packed(fs, dataset).value();
  std::map<std::string, ByteVector> out;
  for (uint32_t number = 0; number < opened->chunk_count(); ++number) {
    const auto chunk = opened->open_chunk(number).value();
    const ChunkIndex index = opened->read_chunk_index(number).value();
    for (const IndexedSample& sample : index.samples) {
      for (const StoredFile& file : sample.files) {
        ByteVector data(file.length);
        EXPECT_TRUE(chunk->read(file.offset, data).ok());
        out[sample.key + "." + file.suffix] = std::move(data);
      }
    }
  }
  return out;
}

base::Pixels decoded(base::Bytes file) {
  base::Pixels out;
  EXPECT_TRUE(image::ImageDecoder().decode(file, std::nullopt, &out).ok());
  return out;
}

TEST(PackResize, MakesLargeImagesSmallerAndLeavesTheOthers) {
  io::MemoryFileSystem fs;
  make_source(fs);  // 120 x 90 to 212 x 159
  const PackReport plain = packed(fs, "plain", small_chunks());
  const PackReport report = packed(fs, "out", smaller(120));
  EXPECT_EQ(report.stats.samples, 24u);
  EXPECT_EQ(report.stats.rewritten, 11u);
  EXPECT_EQ(report.stats.resized, 13u);
  EXPECT_LT(report.stats.resized_bytes_out, report.stats.resized_bytes_in);
  EXPECT_EQ(report.stats.jpeg_bytes_in + report.stats.resized_bytes_in, plain.stats.jpeg_bytes_in);
  EXPECT_THAT(describe(report), HasSubstr("made smaller and encoded again (lossy): 13 images, "));
  EXPECT_THAT(describe_dataset(fs, "out").value(),
              HasSubstr("(lossy): 13 images, by --resize 120 --quality 90"));
  EXPECT_THAT(describe_dataset(fs, "plain").value(), testing::Not(HasSubstr("lossy")));
  const auto before = stored_files(fs, "plain");
  const auto after = stored_files(fs, "out");
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, file] : before) {
    const base::Pixels original = decoded(file);
    if (original.height <= 120) {
      EXPECT_EQ(after.at(name), file) << name;
      continue;
    }
    const base::Pixels pixels = decoded(after.at(name));
    EXPECT_EQ(pixels.height, 120u);
    EXPECT_EQ(pixels.width, 120 * original.width / original.height);
    base::PixelRows rows;
    rows.pixels = original;
    base::Pixels expected;
    image::Resizer().resize(rows, image::whole(rows), {pixels.width, pixels.height},
                            {0, 0, pixels.width, pixels.height}, &expected);
    EXPECT_GT(jpeg::psnr(pixels, expected), 30) << name;
    EXPECT_GT(jpeg::parse_header(after.at(name))->restart_interval, 0u) << name;
  }
}

TEST(PackResize, SameBytesWhateverThreads) {
  io::MemoryFileSystem fs;
  make_source(fs);
  packed(fs, "out", smaller(100));
  const auto expected = contents(fs, "out");
  io::MemoryFileSystem again;
  make_source(again);
  packed(again, "out", smaller(100, 4));
  EXPECT_EQ(contents(again, "out"), expected);
}

TEST(PackResize, WithoutLargeImagesNothingChanges) {
  io::MemoryFileSystem fs;
  make_source(fs, 9);
  const PackReport plain = packed(fs, "plain", small_chunks());
  PackReport report = packed(fs, "out", smaller(base::kImageSideMax));
  EXPECT_EQ(report.stats, plain.stats);
  EXPECT_EQ(report.root, plain.root);
  EXPECT_EQ(stored_files(fs, "out"), stored_files(fs, "plain"));
}

TEST(PackResize, QualityDecidesTheSize) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  PackOptions options = smaller(60);
  uint64_t last = 0;
  for (const uint64_t quality : {1u, 50u, 90u, 100u}) {
    options.resize->quality = quality;
    const PackReport report = packed(fs, fmt::format("out{}", quality), options);
    EXPECT_EQ(report.stats.resized, 6u);
    EXPECT_GT(report.stats.resized_bytes_out, last);
    last = report.stats.resized_bytes_out;
  }
}

TEST(PackResize, APackWithOtherOptionsIsNoticed) {
  io::MemoryFileSystem fs;
  make_source(fs);
  // All chunks are complete when the snapshot is written.
  io::FaultyFileSystem faulty(fs, {.at = 0, .in = "/snapshots/"});
  ASSERT_FALSE(pack(faulty, "src", "begun", smaller(100)));
  const PackReport done = packed(fs, "done", smaller(100));
  packed(fs, "plain", small_chunks());
  PackOptions worse = smaller(100);
  worse.resize->quality = 50;
  const auto refusal = [&](const std::string& dataset, const PackOptions& options) {
    const auto report = pack(fs, "src", dataset, options);
    EXPECT_FALSE(report);
    if (report) return std::string();
    EXPECT_EQ(report.error().code(), Code::kExists);
    return report.error().message();
  };
  for (const std::string dataset : {"begun", "done"}) {
    EXPECT_THAT(refusal(dataset, small_chunks()),
                HasSubstr("(--resize 100 --quality 90, now without --resize)"));
    EXPECT_THAT(refusal(dataset, smaller(99)),
                HasSubstr("(--resize 100 --quality 90, now --resize 99 --quality 90)"));
    EXPECT_THAT(refusal(dataset, worse), HasSubstr("now --resize 100 --quality 50)"));
  }
  EXPECT_THAT(refusal("plain", smaller(100)), HasSubstr("(without --resize, now --resize 100"));
  const PackReport resumed = packed(fs, "begun", smaller(100));
  EXPECT_GT(resumed.chunks_resumed, 0u);
  EXPECT_EQ(resumed.stats, done.stats);
  EXPECT_EQ(stored_files(fs, "begun"), stored_files(fs, "done"));
  EXPECT_TRUE(packed(fs, "done", smaller(100)).was_complete);
}

// Datasets of earlier versions stay equal to those of packs that make nothing smaller.
TEST(PackResize, ReportsOfOtherPacksDoNotMentionIt) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  const auto text_of = [&](const std::string& dataset, const PackReport& report) {
    const ByteVector& file = fs.content(report_path(dataset, report.root));
    return std::string(base::as_text(file));
  };
  const std::string plain = text_of("plain", packed(fs, "plain", small_chunks()));
  EXPECT_THAT(plain, testing::Not(HasSubstr("resize")));
  EXPECT_THAT(plain, testing::Not(HasSubstr("quality")));
  const std::string resized = text_of("out", packed(fs, "out", smaller(50)));
  for (const char* part : {R"("resize":50)", R"("quality":90)", R"("resized":6)"}) {
    EXPECT_THAT(resized, HasSubstr(part));
  }
}

TEST(PackResize, PngAndWebpBecomeJpegs) {
  io::MemoryFileSystem fs;
  const auto& golden = image::golden_files();  // 13 x 7
  for (const char* name : {"rgb", "grey", "rgba", "grey16"}) {
    put(fs, fmt::format("src/cat/{}.png", name), golden.at(name).bytes);
  }
  put(fs, "src/cat/photo.webp", golden.at("webp_lossy").bytes);
  put(fs, "src/cat/misnamed.JPEG", golden.at("rgb").bytes);
  put(fs, "src/cat/grey.jpg", test_jpeg(10, 10, 1));  // a sample of the same name
  const PackReport report = packed(fs, "out", smaller(5));
  EXPECT_EQ(report.stats.resized, 5u);
  EXPECT_THAT(report.stats.kept,
              UnorderedElementsAre(Pair("PNG: transparent, animated or not 8 bits a channel", 2u)));
  std::vector<std::string> names;
  for (const auto& [name, file] : stored_files(fs, "out")) {
    names.push_back(name);
    EXPECT_EQ(jpeg::is_jpeg(file), !name.ends_with(".png")) << name;
  }
  EXPECT_THAT(names, UnorderedElementsAre("cat/rgb.jpg", "cat/grey_png.jpg", "cat/rgba.png",
                                          "cat/grey16.png", "cat/photo.jpg", "cat/misnamed.jpeg",
                                          "cat/grey.jpg"));
  ASSERT_TRUE(export_dataset(fs, "out", fs, "back", {}));
  for (const char* name : {"rgb.png.jpg", "grey.png.jpg", "rgba.png", "grey16.png",
                           "photo.webp.jpg", "misnamed.JPEG", "grey.jpg"}) {
    EXPECT_TRUE(fs.stat(fmt::format("back/cat/{}", name))) << name;
  }
}

TEST(PackResize, OtherFieldsOfASampleAreLeftAlone) {
  io::MemoryFileSystem fs;
  const ByteVector& mask = image::golden_files().at("rgb").bytes;
  ByteVector tar;
  add_member("a.mask.png", mask, &tar);
  add_member("a.png", mask, &tar);
  add_member("a.left.jpg", test_jpeg(60, 50, 1), &tar);
  append_tar_end(&tar);
  put(fs, "src/x.tar", tar);
  const PackReport report = packed(fs, "out", smaller(5));
  EXPECT_EQ(report.stats.resized, 1u);
  EXPECT_EQ(report.stats.rewritten, 1u);
  const auto files = stored_files(fs, "out");
  ASSERT_THAT(files, SizeIs(3));
  EXPECT_EQ(files.at("a.mask.png"), mask);
  EXPECT_EQ(decoded(files.at("a.left.jpg")).width, 60u);
  EXPECT_EQ(decoded(files.at("a.jpg")).height, 5u);
}

TEST(PackResize, DamagedImagesAreRefusedOrKept) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  ByteVector cut = test_jpeg(90, 70, 1);
  cut.resize(cut.size() * 2 / 3);
  put(fs, "src/cat/cut.jpg", cut);
  ByteVector png = image::golden_files().at("rgb").bytes;
  png.resize(png.size() / 2);
  put(fs, "src/cat/cut.png", png);
  put(fs, "src/cat/none.jpg", {});
  put(fs, "src/cat/long.jpg", test_jpeg(1, 20000, 1));
  PackOptions options = smaller(5);
  const PackReport refusing = packed(fs, "refused", options);
  EXPECT_THAT(refusing.stats.refused, SizeIs(4));
  EXPECT_EQ(refusing.stats.resized, 3u);
  options.keep_damaged = true;
  const PackReport keeping = packed(fs, "kept", options);
  EXPECT_THAT(keeping.stats.refused, SizeIs(3));
  EXPECT_THAT(keeping.stats.kept, testing::ElementsAre(Pair("JPEG: damaged", 1u)));
  EXPECT_EQ(stored_files(fs, "kept").at("cat/cut.jpg"), cut);
}

TEST(PackResize, OptionsOutOfRangeAreRefused) {
  io::MemoryFileSystem fs;
  make_source(fs, 3);
  const auto refusal = [&](uint64_t short_side, uint64_t quality) {
    PackOptions options = small_chunks();
    options.resize = {.short_side = short_side, .quality = quality};
    const auto report = pack(fs, "src", "out", options);
    EXPECT_EQ(base::status_of(report).code(), Code::kInvalid);
    EXPECT_FALSE(fs.stat("out"));
    return base::status_of(report).message();
  };
  EXPECT_THAT(refusal(0, 90), HasSubstr("--resize 0: the short side"));
  EXPECT_THAT(refusal(base::kImageSideMax + 1, 90), HasSubstr("1 to 16384 pixels"));
  EXPECT_THAT(refusal(UINT64_MAX, 90), HasSubstr("--resize 18446744073709551615"));
  EXPECT_THAT(refusal(10, 0), HasSubstr("--quality 0: "));
  EXPECT_THAT(refusal(10, 101), HasSubstr("quality 1 to 100"));
}

}  // namespace
}  // namespace forebay::store
