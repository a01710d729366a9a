// Packing annotations and masks that lie beside the images, on a file system in memory.
#include "store/pack/beside.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "image/testing/png_samples.h"
#include "io/testing/faulty.h"
#include "store/check/inspect.h"
#include "store/columns.h"
#include "store/field_files.h"
#include "store/format/target_fields.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kImages = 24;

std::string name_of(uint32_t i) {
  return fmt::format("{}/{:03}", i % 3 == 0 ? "cat" : "dog", i);  // like make_source()
}

std::string annotations_text() {
  json file = {{"images", json::array()}, {"annotations", json::array()}};
  for (uint32_t i = 0; i < kImages; ++i) {
    file["images"].push_back({{"id", 100 + i}, {"file_name", name_of(i) + ".jpg"}});
    for (uint32_t n = 0; n < i % 4; ++n) {
      file["annotations"].push_back(
          {{"image_id", 100 + i}, {"category_id", n}, {"bbox", {i, n, 10.5, 20}}});
    }
  }
  return file.dump();
}

void make_all(io::FileSystem& fs) {
  make_source(fs, kImages);
  put(fs, "all.json", base::as_bytes(annotations_text()));
  for (uint32_t i = 0; i < kImages; ++i) {
    put(fs, "masks/" + name_of(i) + ".png", image::grey_png(120 + i * 4, 90 + i * 3, i));
  }
}

PackOptions with_both(int threads = 1) {
  PackOptions options = small_chunks(threads);
  options.annotations = "all.json";
  options.masks = "masks";
  return options;
}

std::string refusal(io::FileSystem& fs, const std::string& dataset, const PackOptions& options) {
  const auto report = pack(fs, "src", dataset, options);
  return report ? "packed" : report.error().message();
}

TEST(PackBeside, EachSampleHasItsAnnotationsAndItsMask) {
  io::MemoryFileSystem fs;
  make_all(fs);
  const auto report = pack(fs, "src", "out", with_both());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_GT(report->chunks, 2u);
  EXPECT_EQ(report->stats.kept.at("masks"), kImages);
  EXPECT_THAT(report->remarks,
              Contains(Remark{"--annotations", "6 of 24 samples have no annotations"}));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());

  const auto dataset = open_packed(fs, "out").value();
  const auto texts = read_texts(*dataset, kAnnotationsField).value();
  const auto masks = field_files(dataset, std::string(kMaskFields[0]));
  EXPECT_FALSE(masks->knows_locations(0));
  ASSERT_TRUE(masks->load_all_locations({}).ok());
  for (uint64_t sample = 0; sample < kImages; ++sample) {
    const std::string key = dataset->key(sample).value();
    const auto i = static_cast<uint32_t>(std::stoul(key.substr(4)));
    const json own = json::parse(texts[sample].value());
    EXPECT_EQ(own["images"], json::array({{{"id", 100 + i}, {"file_name", key + ".jpg"}}}));
    EXPECT_EQ(own["annotations"].size(), i % 4);
    ByteVector mask;
    ASSERT_TRUE(masks->read_file(masks->location(sample), &mask).ok());
    EXPECT_EQ(mask, image::grey_png(120 + i * 4, 90 + i * 3, i));
  }
  EXPECT_THAT(
      describe_item(fs, "out", "dog/001").value(),
      testing::AllOf(HasSubstr(".mask.png (field \"mask.png\")"), HasSubstr("coco.json: {")));
}

TEST(PackBeside, SameBytesWhateverThreadsAndAfterAnInterruption) {
  io::MemoryFileSystem fs;
  make_all(fs);
  ASSERT_TRUE(pack(fs, "src", "out", with_both()));
  const auto expected = contents(fs, "out");
  for (const int threads : {2, 5}) {
    io::MemoryFileSystem again;
    make_all(again);
    ASSERT_TRUE(pack(again, "src", "out", with_both(threads)));
    EXPECT_EQ(contents(again, "out"), expected) << threads;
  }
  io::MemoryFileSystem broken;
  make_all(broken);
  // All chunks are complete when the snapshot is written.
  io::FaultyFileSystem faulty(broken, {.at = 0, .in = "/snapshots/"});
  ASSERT_FALSE(pack(faulty, "src", "out", with_both()));
  const auto resumed = pack(broken, "src", "out", with_both());
  ASSERT_TRUE(resumed) << resumed.error().message();
  EXPECT_GT(resumed->chunks_resumed, 0u);
  EXPECT_EQ(contents(broken, "out"), expected);
}

TEST(PackBeside, APackWithOthersIsNoticed) {
  io::MemoryFileSystem fs;
  make_all(fs);
  ASSERT_TRUE(pack(fs, "src", "out", with_both()));
  ASSERT_TRUE(pack(fs, "src", "out", with_both())->was_complete);
  PackOptions plain = with_both();
  plain.annotations.clear();
  EXPECT_THAT(refusal(fs, "out", plain), HasSubstr("now without --annotations)"));
  plain = with_both();
  plain.masks.clear();
  EXPECT_THAT(refusal(fs, "out", plain), HasSubstr("(with --masks, now without)"));
  put(fs, "all.json", base::as_bytes(annotations_text() + "\n"));
  EXPECT_THAT(refusal(fs, "out", with_both()), HasSubstr("now --annotations with SHA-256 "));
  put(fs, "all.json", base::as_bytes(annotations_text()));
  put(fs, "masks/cat/003.png", image::grey_png(132, 99, 77));
  EXPECT_THAT(refusal(fs, "out", with_both()), HasSubstr("another source, or one that changed"));
}

TEST(PackBeside, MissingMasksAreNamedBeforeAnythingIsWritten) {
  io::MemoryFileSystem fs;
  make_all(fs);
  ASSERT_TRUE(fs.remove("masks/cat/003.png").ok());
  ASSERT_TRUE(fs.remove("masks/dog/004.png").ok());
  EXPECT_THAT(refusal(fs, "out", with_both()),
              HasSubstr("--masks: masks has no mask for 2 of 24 images, such as cat/003;"));
  EXPECT_FALSE(fs.stat("out"));
}

TEST(PackBeside, MasksThatDoNotFitAreRefusedWithTheirImages) {
  io::MemoryFileSystem fs;
  make_all(fs);
  put(fs, "masks/cat/003.png", image::grey_png(20, 30, 1));
  put(fs, "masks/dog/004.png", test_jpeg(136, 102, 1));
  PackOptions options = with_both();
  options.skip_max = {.value = 2, .is_percent = false};
  const auto report = pack(fs, "src", "out", options);
  ASSERT_TRUE(report) << report.error().message();
  std::vector<std::string> refused;
  for (const Remark& one : report->stats.refused) refused.push_back(one.path + ": " + one.reason);
  EXPECT_THAT(refused,
              testing::UnorderedElementsAre(
                  "cat/003.jpg: .mask.png: the mask has 20 x 30 pixels, but its image has 132 x 99",
                  HasSubstr("dog/004.jpg: .mask.png: ")));
}

TEST(PackBeside, AnnotationsThatDoNotFitAreTold) {
  io::MemoryFileSystem fs;
  make_all(fs);
  put(fs, "all.json", base::as_bytes(R"({"images": [{"id": 1, "file_name": "none.jpg"},
      {"id": 2, "file_name": "x/cat/000.jpg"}], "annotations":
      [{"image_id": 3, "caption": "lost"}, {"image_id": 2, "caption": "here"}]})"));
  const auto report = pack(fs, "src", "out", with_both());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->remarks,
            (std::vector<Remark>{
                {"--annotations", "1 annotation of images that the file does not list"},
                {"--annotations", "1 of its 2 images are not in the source, such as none.jpg"},
                {"--annotations", "23 of 24 samples have no annotations"}}));
  put(fs, "all.json", base::as_bytes(R"({"images": [{"id": 1, "file_name": "none.jpg"}]})"));
  EXPECT_THAT(refusal(fs, "other", with_both()),
              HasSubstr("all.json: none of its 1 images is in the source (the first is "
                        "\"none.jpg\")"));
  put(fs, "all.json", base::as_bytes(R"({"images": [{"id": 1, "file_name": "dog/001.jpg"},
      {"id": 2, "file_name": "y/dog/001.jpg"}]})"));
  EXPECT_THAT(refusal(fs, "other", with_both()), HasSubstr("both mean dog/001"));
  const std::string large(2 << 20, 'x');
  put(fs, "all.json",
      base::as_bytes(R"({"images": [{"id": 1, "file_name": "dog/001.jpg"}],
      "annotations": [{"image_id": 1, "caption": ")" +
                     large + "\"}]}"));
  EXPECT_THAT(refusal(fs, "other", with_both()),
              HasSubstr("the annotations of dog/001.jpg take 2097"));
  put(fs, "all.json", base::as_bytes(R"({"images": []})"));
  EXPECT_THAT(refusal(fs, "other", with_both()), HasSubstr("its list \"images\" is empty"));
  put(fs, "all.json", base::as_bytes(R"({"images": 3})"));
  EXPECT_THAT(refusal(fs, "other", with_both()), HasSubstr("all.json: it has no list \"images\""));
  EXPECT_FALSE(fs.stat("other"));
}

TEST(PackBeside, NotWithSmallerImages) {
  io::MemoryFileSystem fs;
  make_all(fs);
  PackOptions options = with_both();
  options.resize = {.short_side = 64};
  EXPECT_THAT(refusal(fs, "out", options), HasSubstr("--resize with --annotations or --masks"));
}

// The images lie in shards, and the masks in another one.
TEST(PackBeside, ShardsHaveTheirOwnOrAreGivenSome) {
  io::MemoryFileSystem fs;
  ByteVector images;
  ByteVector masks;
  for (uint32_t i = 0; i < 4; ++i) {
    add_member(fmt::format("{}.jpg", i), test_jpeg(40 + i, 30, i), &images);
    add_member(fmt::format("{}.txt", i), base::as_bytes("t"), &images);
    add_member(fmt::format("{}.png", 3 - i), image::grey_png(43 - i, 30, i), &masks);
  }
  append_tar_end(&images);
  append_tar_end(&masks);
  put(fs, "src/images.tar", images);
  put(fs, "masks.tar", masks);
  put(fs, "all.json", base::as_bytes(R"({"images": [{"id": 1, "file_name": "2.jpg"}]})"));
  PackOptions options = with_both();
  options.masks = "masks.tar";
  const auto report = pack(fs, "src", "out", options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(report->stats.refused, IsEmpty());
  EXPECT_THAT(damages(fs, "out"), IsEmpty());

  options = small_chunks();
  options.tar_fields = true;
  options.annotations = "all.json";
  options.masks = "masks.tar";
  ASSERT_TRUE(pack(fs, "src", "with_members", options));
  EXPECT_THAT(damages(fs, "with_members"), IsEmpty());
  const std::string chunk = "with_members/chunks/" + fs.list("with_members/chunks")->at(0).name;
  ASSERT_TRUE(pack(fs, chunk, "again", small_chunks()));
  const auto again = open_packed(fs, "again").value();
  EXPECT_THAT(
      again->schema().fields,
      testing::UnorderedElementsAreArray(open_packed(fs, "with_members").value()->schema().fields));
  const auto twice = pack(fs, chunk, "twice", options);
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message(),
              HasSubstr("have .coco.json already; leave out --annotations"));
}

}  // namespace
}  // namespace forebay::store
