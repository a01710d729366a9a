// verify and inspect on datasets that pack made: all damage is found, and none ends the process.
#include "store/check/verify.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "io/testing/far_origin.h"
#include "io/testing/faulty.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"
#include "store/check/inspect.h"
#include "store/pack/report.h"
#include "store/testing/dataset_samples.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::HasSubstr;
using testing::IsEmpty;

class VerifyTest : public testing::Test {
 protected:
  // Makes a dataset of `images` photographs in "out".
  void make(int images) {
    make_source(fs_, images);
    const auto report = pack(fs_, "src", "out", small_chunks());
    ASSERT_TRUE(report) << report.error().message();
    report_path_ = report_path("out", report->root);
  }
  Result<VerifyReport> check(const VerifyOptions& options = {.threads = 1, .progress = {}}) {
    return verify(fs_, "out", options);
  }
  // Whether verify finds anything; it may also refuse to look.
  bool noticed() {
    const auto report = check();
    return !report || !report->damages.empty();
  }

  io::MemoryFileSystem fs_;
  std::string report_path_;
};

// Flips every byte of every file of a dataset of three thumbnails, and cuts every file to every
// length. A flip in pack's report may go unnoticed: the report is for people, and holds names and
// reasons in words that no reader of the dataset looks at. Only its counts can be checked.
TEST_F(VerifyTest, EveryFlippedByteAndEveryTruncationIsNoticed) {
  for (uint32_t i = 0; i < 3; ++i) {
    put(fs_, fmt::format("src/{}/{}.jpg", i == 0 ? "cat" : "dog", i), test_jpeg(16 + i, 16, i));
  }
  const auto packed = pack(fs_, "src", "out", small_chunks());
  ASSERT_TRUE(packed);
  const std::string report = report_path("out", packed->root);
  const auto files = contents(fs_, "out");
  ASSERT_EQ(files.size(), 5u);  // HEAD, a chunk, a part, a root, the report
  for (const auto& [path, data] : files) {
    ByteVector& content = fs_.content(path);
    for (size_t at = 0; at < data.size(); ++at) {
      content[at] ^= static_cast<uint8_t>(1 + at % 255);
      const bool found = noticed();
      ASSERT_TRUE(found || path == report) << path << " byte " << at;
      content[at] = data[at];
    }
    for (size_t length = 0; length < data.size(); ++length) {
      content.resize(length);
      ASSERT_TRUE(noticed()) << path << " cut to " << length;
      content = data;
    }
  }
  EXPECT_FALSE(noticed());
}

TEST_F(VerifyTest, FindsFlippedBytesWithPixels) {
  make(6);
  const uint64_t seed = 20261121;
  base::Random random(seed, base::Purpose::kTest);
  for (const auto& [path, data] : contents(fs_, "out")) {
    if (path == report_path_) continue;
    for (int i = 0; i < 12; ++i) {
      const uint64_t at = random.below(data.size());
      fs_.content(path)[at] ^= static_cast<uint8_t>(1 + random.below(255));
      EXPECT_FALSE(damages(fs_, "out").empty()) << path << " byte " << at << " seed " << seed;
      fs_.content(path) = data;
    }
  }
  EXPECT_THAT(damages(fs_, "out"), IsEmpty());
}

// A bug once: folders that could not be listed were skipped silently.
TEST_F(VerifyTest, EveryReadThatFailsIsReported) {
  make(3);
  for (int64_t at = 0;; ++at) {
    const io::FaultyFileSystem faulty(fs_, {.on = io::FaultyFileSystem::Fault::On::kRead,
                                            .at = at,
                                            .for_ever = false,
                                            .code = Code::kIo});
    const auto report = verify(faulty, "out", {.threads = 1, .progress = {}});
    if (faulty.operations() <= at) {
      EXPECT_GT(at, 10);
      break;
    }
    EXPECT_TRUE(!report || !report->damages.empty()) << "read " << at;
  }
}

// A network that does not answer has damaged nothing.
TEST_F(VerifyTest, AnOriginThatDoesNotAnswerIsAnErrorAndNoDamage) {
  make(3);
  ByteVector tar;
  add_member("a/1.jpg", test_jpeg(40, 30, 1), &tar);
  append_tar_end(&tar);
  put(fs_, "shards/x.tar", tar);
  for (const auto& [what, code] :
       {std::pair("out", Code::kUnavailable), std::pair("src", Code::kUnavailable),
        std::pair("shards", Code::kUnavailable), std::pair("out", Code::kTruncated),
        std::pair("src", Code::kTruncated), std::pair("shards", Code::kTruncated)}) {
    for (int64_t at = 0;; ++at) {
      const io::FaultyFileSystem faulty(
          fs_, {.on = io::FaultyFileSystem::Fault::On::kRead, .at = at, .code = code});
      const auto report = verify(faulty, what, {.threads = 1, .progress = {}});
      if (faulty.operations() <= at) {
        EXPECT_GT(at, 5);
        EXPECT_TRUE(report && report->damages.empty());
        break;
      }
      ASSERT_FALSE(report) << what << " read " << at;
      EXPECT_EQ(report.error().code(), code) << what << " read " << at;
    }
  }
}

// A bug once: on a web server, no file in snapshots/ was compared with its name.
TEST_F(VerifyTest, WithoutAListingTheFilesToWhichHeadLeadsAreCompared) {
  make(3);
  io::FarOrigin web(fs_);
  web.refuse_to_list();
  const auto found = [&] { return damages(web, "out", false); };
  EXPECT_THAT(found(), IsEmpty());
  for (const auto& [path, data] : contents(fs_, "out/snapshots")) {
    if (path == report_path_) continue;
    for (size_t at = 0; at < data.size(); ++at) {
      fs_.content(path)[at] ^= 1;
      ASSERT_THAT(found(), Contains(HasSubstr(path))) << path << " byte " << at;
      fs_.content(path)[at] = data[at];
    }
  }
}

// A bug once: a single damaged transfer was listed as damage.
TEST_F(VerifyTest, DamageOnTheWayIsReadASecondTime) {
  make(12);
  for (const char* end : {".tar", ".part", ".root"}) {
    for (int reads = 1; reads <= 2; ++reads) {
      io::FarOrigin far(fs_);
      far.damage(end, reads);
      EXPECT_EQ(damages(far, "out", false).empty(), reads == 1) << end;
    }
  }
}

// A bug once: each chunk was asked for twice.
TEST_F(VerifyTest, AsksOnceForEachChunk) {
  const auto questions = [this](int images) {
    make(images);
    io::FarOrigin far(fs_);
    const auto report = verify(far, "out", {.threads = 1, .progress = {}});
    EXPECT_TRUE(report && report->damages.empty());
    fs_ = {};
    return std::pair(far.questions(), report->chunks);
  };
  const auto [few, few_chunks] = questions(3);
  const auto [many, many_chunks] = questions(24);
  EXPECT_GT(many_chunks, few_chunks + 3);
  EXPECT_EQ(many - few, many_chunks - few_chunks);
}

// A bug once: std::bad_alloc left a worker and ended the process.
TEST_F(VerifyTest, LackOfMemoryIsAnError) {
  make(12);
  const auto report =
      check({.threads = 2, .progress = [](uint64_t, uint64_t) { throw std::bad_alloc(); }});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kNoMemory);
  EXPECT_THAT(report.error().message(), HasSubstr("--threads"));
}

TEST_F(VerifyTest, ShowsProgress) {
  make(12);
  std::vector<uint64_t> seen;
  uint64_t total = 0;
  const auto report = check({.threads = 3, .progress = [&](uint64_t done, uint64_t chunks) {
                               seen.push_back(done);
                               total = chunks;
                             }});
  ASSERT_TRUE(report);
  EXPECT_EQ(total, report->chunks);
  ASSERT_EQ(seen.size(), total);
  EXPECT_EQ(seen.back(), total);
}

TEST_F(VerifyTest, AReportThatSaysOtherwiseIsDamage) {
  make(3);
  const ByteVector good = fs_.content(report_path_);
  const auto found = [&](std::string_view from, std::string_view to) {
    std::string text(base::as_text(good));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    fs_.content(report_path_).assign(text.begin(), text.end());
    const auto all = damages(fs_, "out");
    return all.empty() ? std::string() : all[0];
  };
  EXPECT_EQ(found("\"samples\":3", "\"samples\":3"), "");
  EXPECT_THAT(found("\"samples\":3", "\"samples\":4"), HasSubstr("its counts"));
  EXPECT_THAT(found("\"chunks\":1", "\"chunks\":2"), HasSubstr("its counts"));
  EXPECT_THAT(found("\"samples\":3", "\"samples\":-3"), HasSubstr("not the JSON expected"));
  EXPECT_THAT(found("\"kept\":{}", "\"kept\":[{}]"), HasSubstr("not the JSON expected"));
  EXPECT_THAT(found("{", "["), HasSubstr(report_path_));
  ASSERT_TRUE(fs_.remove(report_path_).ok());
  EXPECT_THAT(damages(fs_, "out"), IsEmpty());
}

class InspectTest : public VerifyTest {};

TEST_F(InspectTest, DatasetAndSamplesInWords) {
  make(9);
  const auto dataset = describe_dataset(fs_, "out");
  ASSERT_TRUE(dataset);
  for (const char* part : {"9 samples in ", "field \"image\": image", "field \"class\": class",
                           "2 classes: cat … dog"}) {
    EXPECT_THAT(*dataset, HasSubstr(part));
  }
  std::map<std::string, SampleLine> lines;
  ASSERT_TRUE(
      list_samples(fs_, "out", [&](const SampleLine& line) { lines[line.key] = line; }).ok());
  ASSERT_EQ(lines.size(), 9u);
  const SampleLine& line = lines.at("dog/004");
  EXPECT_EQ(line.class_name, "dog");
  EXPECT_EQ(line.label, 1);
  EXPECT_EQ(line.width, 136u);
  EXPECT_EQ(line.height, 102u);
  EXPECT_GT(line.bytes, 500u);
  EXPECT_EQ(describe_dataset(fs_, "none").error().code(), Code::kNotFound);
  EXPECT_EQ(describe_item(fs_, "out", "dog/999").error().code(), Code::kNotFound);
  EXPECT_THAT(*describe_item(fs_, "out", "0"), HasSubstr("chunk 0: "));
}

TEST_F(InspectTest, ACropNeedsAPartOfItsFile) {
  make(9);
  const auto crop = describe_crop(fs_, "out", "dog/008", {100, 80, 20, 10});
  ASSERT_TRUE(crop) << crop.error().message();
  EXPECT_THAT(*crop, HasSubstr("crop 20 x 10 at 100,80"));
  EXPECT_THAT(*crop, HasSubstr("the pixels equal a full decode's"));
  EXPECT_EQ(describe_crop(fs_, "out", "dog/008", {140, 0, 20, 10}).error().code(), Code::kInvalid);
  EXPECT_EQ(describe_crop(fs_, "out", "dog/999", {0, 0, 1, 1}).error().code(), Code::kNotFound);
}

// A bug once: one flipped byte of the restart interval ended the process.
TEST_F(InspectTest, ACropOfADamagedFileIsAnError) {
  make(1);
  const std::string path = "out/chunks/" + fs_.list("out/chunks")->at(0).name;
  ByteVector& chunk = fs_.content(path);
  const ByteVector good = chunk;
  const std::string_view text = base::as_text(good);
  const size_t dri = text.find(std::string_view("\xff\xdd\x00\x04", 4));
  ASSERT_NE(dri, std::string_view::npos);
  // The header ends with DRI (6 bytes) and SOS (14).
  for (size_t at = text.find("\xff\xd8\xff"); at < dri + 6 + 14; ++at) {
    for (const int flip : {1, 4, 0xff}) {
      chunk[at] = static_cast<uint8_t>(good[at] ^ flip);
      EXPECT_FALSE(describe_crop(fs_, "out", "cat/000", {100, 70, 20, 20})) << at;
    }
    chunk[at] = good[at];
  }
  EXPECT_TRUE(describe_crop(fs_, "out", "cat/000", {100, 70, 20, 20}));
}

// A bug once: only the keys inside a chunk were compared.
TEST(Verify, AKeyThatIsInTwoChunksIsDamage) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(write_dataset(fs, kPath, {make_chunk(0, 3), make_chunk(3, 2)}).ok());
  EXPECT_THAT(damages(fs, kPath, false), ::testing::IsEmpty());
  ASSERT_TRUE(write_dataset(fs, kPath, {make_chunk(0, 3), make_chunk(2, 2)}).ok());
  const auto found = damages(fs, kPath, false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr("sample \"train/00002\": (chunk 1) chunk 0 has this key too"));
}

// A bug once: with every checksum right and a segment too few, `verify --pixels` ended the process.
TEST(Verify, AnIndexWithTooFewSegmentsIsDamage) {
  auto image = jpeg::rewrite(jpeg::make_jpeg({.width = 100, .height = 100}));
  ASSERT_TRUE(image);
  auto& segments = image->index.segments;
  while (segments.size() > 2) {
    const jpeg::SegmentEntry last = segments.back();
    segments.pop_back();
    segments.back().length += 2 + last.length;
  }
  const uint32_t length = segments.back().length;
  const Bytes merged = Bytes(image->file).last(length + 2).first(length);
  segments.back().check = static_cast<uint16_t>(base::crc32c(merged));
  ChunkIndex index{.schema = kSchema, .samples = {}};
  index.samples.push_back({.key = "a", .source_path = "a.jpg"});
  index.samples[0].files.push_back({.field = 0,
                                    .suffix = "jpg",
                                    .width = 100,
                                    .height = 100,
                                    .subsampling = image->header.subsampling(),
                                    .restart = image->index});
  io::MemoryFileSystem fs;
  ASSERT_TRUE(write_dataset(fs, kPath, {lay_out(std::move(index), {image->file})}).ok());
  const auto found = damages(fs, kPath);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], HasSubstr("number of segments differs from the index"));
  EXPECT_THAT(found[1], HasSubstr("its middle, decoded by itself, fails"));
}

}  // namespace
}  // namespace forebay::store
