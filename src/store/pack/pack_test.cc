// What pack stores, refuses and reports, on a file system in memory. Interruptions are tested in
// pack_job_test.cc, and images that pack cannot rewrite in chunk_builder_test.cc.
#include "store/pack/pack.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "store/check/inspect.h"
#include "store/format/snapshot.h"
#include "store/source/tar_reader.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Pack, SameBytesWhateverThreads) {
  io::MemoryFileSystem fs;
  make_source(fs);
  const auto report = pack(fs, "src", "out", small_chunks(1));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->stats.samples, 24u);
  EXPECT_EQ(report->stats.rewritten, 24u);
  EXPECT_GT(report->chunks, 3u);
  const auto expected = contents(fs, "out");
  EXPECT_FALSE(expected.contains("out/journal"));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  for (const int threads : {2, 5}) {
    io::MemoryFileSystem again;
    make_source(again);
    ASSERT_TRUE(pack(again, "src", "out", small_chunks(threads)));
    EXPECT_EQ(contents(again, "out"), expected) << threads;
  }
}

TEST(Pack, CompleteDatasetIsLeftAlone) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  const auto before = contents(fs, "out");
  const auto again = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->was_complete);
  PackOptions other = small_chunks();
  other.seed = 7;
  const auto refused = pack(fs, "src", "out", other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("--seed 0, now 7"));
  EXPECT_EQ(contents(fs, "out"), before);
}

TEST(Pack, ADamagedHeadOrReportIsNamed) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  const auto report = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(report);
  for (const std::string& path : {head_path("out"), report_path("out", report->root)}) {
    const ByteVector good = fs.content(path);
    fs.content(path) = {'{', '}'};
    const auto again = pack(fs, "src", "out", small_chunks());
    ASSERT_FALSE(again);
    EXPECT_THAT(again.error().message(), HasSubstr(path));
    fs.content(path) = good;
  }
}

TEST(Pack, OptionsOfOrderLimitAndTarFields) {
  io::MemoryFileSystem fs;
  make_source(fs, 9);
  const auto keys = [&](const std::string& dataset) {
    std::vector<std::string> out;
    EXPECT_TRUE(
        list_samples(fs, dataset, [&](const SampleLine& line) { out.push_back(line.key); }).ok());
    return out;
  };
  PackOptions options = small_chunks();
  options.shuffled = false;
  ASSERT_TRUE(pack(fs, "src", "listed", options));
  const std::vector<std::string> listed = {"cat/000", "cat/003", "cat/006", "dog/001", "dog/002",
                                           "dog/004", "dog/005", "dog/007", "dog/008"};
  EXPECT_EQ(keys("listed"), listed);
  options.limit = 4;
  ASSERT_TRUE(pack(fs, "src", "four", options));
  EXPECT_EQ(keys("four"), std::vector<std::string>(listed.begin(), listed.begin() + 4));
  EXPECT_THAT(damages(fs, "four"), IsEmpty());
  options.tar_fields = true;
  ASSERT_TRUE(pack(fs, "src", "fields", options));
  EXPECT_THAT(damages(fs, "fields"), IsEmpty());
  const auto file = fs.open("fields/chunks/" + fs.list("fields/chunks")->at(0).name).value();
  TarReader reader(*file);
  std::vector<std::string> names;
  for (auto member = reader.next(); member && *member; member = reader.next()) {
    names.push_back((*member)->name);
    if (names.back() != "dog/001.cls") continue;
    ByteVector text((*member)->size);
    ASSERT_TRUE(file->read((*member)->offset, text).ok());
    EXPECT_EQ(base::as_text(text), "1");
  }
  EXPECT_THAT(names, testing::ElementsAre("__forebay__", "cat/000.jpg", "cat/000.cls",
                                          "cat/003.jpg", "cat/003.cls", "cat/006.jpg",
                                          "cat/006.cls", "dog/001.jpg", "dog/001.cls"));
}

// A bug once: pack said nothing about it.
TEST(Pack, AShardWithoutItsEndIsRemarkedOn) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("a.jpg", test_jpeg(40, 30, 1), &tar);
  const size_t border = tar.size();
  add_member("b.jpg", test_jpeg(40, 30, 2), &tar);
  append_tar_end(&tar);
  put(fs, "shards/whole.tar", tar);
  tar.resize(border);
  for (size_t at = 0; at < border; ++at) {
    if (tar[at] == 'a' && at < 100) tar[at] = 'c';
  }
  // The header with the changed name needs a new checksum.
  tar[148 + 5] = static_cast<uint8_t>(tar[148 + 5] + 2);
  put(fs, "shards/cut.tar", tar);
  const auto report = pack(fs, "shards", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->stats.samples, 3u);
  ASSERT_THAT(report->remarks, SizeIs(1));
  EXPECT_EQ(report->remarks[0].path, "cut.tar");
  EXPECT_THAT(describe(*report), HasSubstr("cut.tar: the two zero blocks at its end are missing"));
  const auto again = pack(fs, "shards", "out", small_chunks());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->remarks, report->remarks);
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
}

TEST(Pack, ListsWhatItRefuses) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  ByteVector cut = test_jpeg(200, 200, 1);
  cut.resize(cut.size() / 2);
  put(fs, "src/dog/cut.jpg", cut);
  put(fs, "src/dog/empty.png", {});
  put(fs, "src/dog/text.jpeg", base::as_bytes("no image"));
  put(fs, "src/dog/notes.txt", base::as_bytes("ignored"));
  PackOptions options = small_chunks();
  options.skip_max = {.value = 3, .is_percent = false};
  const auto report = pack(fs, "src", "out", options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->stats.samples, 6u);
  EXPECT_THAT(report->stats.refused, SizeIs(3));
  EXPECT_EQ(report->ignored, 1u);
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  PackOptions stop = small_chunks();
  stop.on_error = OnError::kStop;
  const auto stopped = pack(fs, "src", "out2", stop);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kCorrupt);
}

// A bug once: a name over 128 bytes refused the whole folder, where file systems give 255.
TEST(Pack, TakesTheLongestNameOfAClass) {
  io::MemoryFileSystem fs;
  const std::string name(base::kClassNameBytesMax, 'c');
  put(fs, "src/" + name + "/1.jpg", test_jpeg(40, 30, 1));
  const auto report = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  const auto line = describe_item(fs, "out", name + "/1");
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, HasSubstr("class: 0 " + name));
}

TEST(Pack, KeepsEveryFieldOfAWebDataset) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  for (int i = 0; i < 3; ++i) {
    const std::string key = fmt::format("a/{}", i);
    add_member(key + ".cls", base::as_bytes(std::to_string(i) + "\n"), &tar);
    add_member(key + ".JPG", test_jpeg(70, 50, 5), &tar);
    add_member(key + ".json", base::as_bytes("{\"n\": 1}"), &tar);
    add_member(key + ".txt", base::as_bytes("über"), &tar);
    add_member(key + ".seg.jpg", test_jpeg(70, 50, 6), &tar);
    add_member(key + ".bin", base::as_bytes("raw"), &tar);
  }
  append_tar_end(&tar);
  put(fs, "x.tar", tar);
  const auto report = pack(fs, "x.tar", "out", small_chunks());
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->stats.rewritten, 6u);
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  const auto sample = describe_item(fs, "out", "a/1");
  ASSERT_TRUE(sample);
  for (const char* part :
       {"class: 1", "json: {\"n\": 1}", "text: über", "field \"seg.jpg\"", "field \"bin\""}) {
    EXPECT_THAT(*sample, HasSubstr(part));
  }
  // A chunk is itself a shard, which gives the same fields.
  const auto chunk = fs.list("out/chunks").value().at(0).name;
  const auto twice = pack(fs, "out/chunks/" + chunk, "out2", small_chunks());
  ASSERT_TRUE(twice) << twice.error().message();
  EXPECT_EQ(twice->stats.samples, 3u);
}

TEST(Pack, RefusesShardsThatMeanAnotherDataset) {
  io::MemoryFileSystem fs;
  const auto attempt = [&](std::vector<std::string> names) {
    ByteVector tar;
    for (const auto& name : names) add_member(name, test_jpeg(16, 16, 1), &tar);
    append_tar_end(&tar);
    put(fs, "x.tar", tar);
    const auto report = pack(fs, "x.tar", "out", small_chunks());
    return report ? std::string() : report.error().message();
  };
  EXPECT_THAT(attempt({"a.jpg", "b.jpg", "a.png"}), HasSubstr("member a.png at byte"));
  EXPECT_THAT(attempt({"../a.jpg"}), HasSubstr("leads out"));
  EXPECT_THAT(attempt({"/a.jpg"}), HasSubstr("leads out"));
  EXPECT_THAT(attempt({"a.jpg", "a.JPG"}), HasSubstr("this field already"));
}

}  // namespace
}  // namespace forebay::store
