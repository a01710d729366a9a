// pack from end to end on a file system in memory: the same bytes whatever threads, faults and
// power losses; what is damaged is listed; what comes back by verify and by export.
#include "store/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "io/faulty.h"
#include "io/memory.h"
#include "jpeg/decode.h"
#include "store/export.h"
#include "store/inspect.h"
#include "store/journal.h"
#include "store/tar.h"
#include "store/test_jpeg.h"
#include "store/verify.h"

namespace forebay::store {
namespace {

using base::ByteVector;
using base::Code;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

void put(io::FileSystem& fs, const std::string& path, base::Bytes data) {
  ASSERT_TRUE(fs.make_dirs(io::parent_path(path)).ok());
  ASSERT_TRUE(io::write_file_atomically(fs, path, data).ok());
}

// Three classes of JPEGs of different sizes, some of them damaged when asked for.
void make_source(io::FileSystem& fs, int images = 24) {
  for (int i = 0; i < images; ++i) {
    const std::string name = fmt::format("src/{}/{:03}.jpg", i % 3 == 0 ? "cat" : "dog", i);
    put(fs, name, test_jpeg(120 + i * 4, 90 + i * 3, static_cast<uint64_t>(i)));
  }
}

PackOptions small_chunks(int threads = 1) {
  PackOptions options;
  options.threads = threads;
  options.chunk_bytes = 64 << 10;
  return options;
}

// Every file of the dataset but the lock.
std::map<std::string, ByteVector> contents(const io::FileSystem& fs, const std::string& folder) {
  std::map<std::string, ByteVector> out;
  const auto entries = fs.list(folder).value();
  for (const auto& entry : entries) {
    const std::string path = io::join_path(folder, entry.name);
    if (entry.type == io::FileType::kDirectory) {
      out.merge(contents(fs, path));
    } else if (entry.name != "LOCK") {
      out[path] = io::read_file(fs, path, 1u << 30).value();
    }
  }
  return out;
}

std::vector<std::string> damages(const io::FileSystem& fs, const std::string& dataset) {
  const auto report = verify(fs, dataset, {.pixels = true, .threads = 1, .progress = {}});
  if (!report) return {report.error().message()};
  std::vector<std::string> out;
  for (const Damage& damage : report->damages) out.push_back(describe(damage));
  return out;
}

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

// The disk fills at every write in turn; a power loss follows; the next run goes on.
TEST(Pack, GoesOnAfterAFaultAtEveryWrite) {
  io::MemoryFileSystem clean;
  make_source(clean, 12);
  ASSERT_TRUE(pack(clean, "src", "out", small_chunks()));
  const auto expected = contents(clean, "out");
  for (int64_t at = 0;; ++at) {
    io::MemoryFileSystem fs;
    make_source(fs, 12);
    io::FaultyFileSystem faulty(fs, {.at = at});
    const auto broken = pack(faulty, "src", "out", small_chunks());
    if (broken) {
      ASSERT_GT(at, 20);
      break;
    }
    EXPECT_EQ(broken.error().code(), Code::kNoSpace) << broken.error().message();
    // Torn bytes behind the last sync, a different number each time.
    fs.power_loss(static_cast<uint64_t>(at) * 37 % 300);
    const auto report = pack(fs, "src", "out", small_chunks(2));
    ASSERT_TRUE(report) << at << ": " << report.error().message();
    EXPECT_EQ(contents(fs, "out"), expected) << at;
  }
}

TEST(Pack, SaysHowToGoOn) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  const auto broken = pack(faulty, "src", "out", small_chunks());
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(), HasSubstr("run the same command again to go on"));
  EXPECT_THAT(broken.error().message(), HasSubstr(" more); "));
}

TEST(Pack, RefusesToGoOnWithAChangedSource) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  put(fs, "src/cat/000.jpg", test_jpeg(64, 64, 99));
  const auto changed = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code(), Code::kExists);
  EXPECT_THAT(changed.error().message(), HasSubstr("cat/000.jpg"));
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
  const auto report = pack(fs, "src", "out", small_chunks());
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

TEST(Pack, StopsOnRequestAndGoesOn) {
  io::MemoryFileSystem fs;
  make_source(fs, 12);
  std::atomic<bool> stop = true;
  PackOptions options = small_chunks();
  options.stop = &stop;
  const auto stopped = pack(fs, "src", "out", options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), Code::kCancelled);
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks()));
}

void add_member(const std::string& name, base::Bytes data, ByteVector* tar) {
  append_tar_header(name, data.size(), tar);
  tar->insert(tar->end(), data.begin(), data.end());
  append_tar_padding(data.size(), tar);
}

TEST(Pack, KeepsEveryFieldOfAWebDataset) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  for (int i = 0; i < 3; ++i) {
    const std::string key = fmt::format("a/{}", i);
    add_member(key + ".cls", base::as_bytes(std::to_string(i) + "\n"), &tar);
    add_member(key + ".JPG", test_jpeg(100, 80, 5), &tar);
    add_member(key + ".json", base::as_bytes("{\"n\": 1}"), &tar);
    add_member(key + ".txt", base::as_bytes("über"), &tar);
    add_member(key + ".seg.jpg", test_jpeg(100, 80, 6), &tar);
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
  // A chunk is itself a shard: the same fields come out of it.
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

TEST(FolderSource, KeysAreUniqueAndFreeOfDots) {
  io::MemoryFileSystem fs;
  for (const char* name : {"a.b.jpg", "a.jpg", "a.png", "a_png.jpg", "b%.JPG"}) {
    put(fs, io::join_path("src/c", name), base::as_bytes("x"));
  }
  const auto listing = list_source(fs, "src/");
  ASSERT_TRUE(listing) << listing.error().message();
  std::vector<std::string> keys;
  for (const auto& sample : listing->samples) keys.push_back(sample.key);
  EXPECT_THAT(keys, testing::ElementsAre("c/a%2Eb", "c/a", "c/a_png_2", "c/a_png", "c/b%25"));
}

TEST(Source, ExpandsBraces) {
  EXPECT_THAT(expand_braces("x-{08..10}.tar").value(),
              testing::ElementsAre("x-08.tar", "x-09.tar", "x-10.tar"));
  EXPECT_FALSE(expand_braces("x-{1..99999999999}.tar"));
  EXPECT_FALSE(expand_braces("x-{b..c}.tar"));
}

TEST(Export, GivesBackPixelsAndNames) {
  io::MemoryFileSystem fs;
  make_source(fs, 9);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  ASSERT_TRUE(export_dataset(fs, "out", "back", {}));
  jpeg::Decoder decoder;
  base::Pixels before;
  base::Pixels after;
  for (const auto& [path, data] : contents(fs, "src")) {
    const auto back = io::read_file(fs, "back" + path.substr(3), 1u << 30);
    ASSERT_TRUE(back) << path;
    ASSERT_TRUE(decoder.decode(data, std::nullopt, &before).ok());
    ASSERT_TRUE(decoder.decode(*back, std::nullopt, &after).ok());
    EXPECT_EQ(before.rgb, after.rgb) << path;
  }
  EXPECT_EQ(export_dataset(fs, "out", "back", {}).error().code(), Code::kExists);
}

TEST(Verify, FindsEveryFlippedByte) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  const uint64_t seed = 20261121;
  base::Random random(seed, base::Purpose::kTest);
  const auto files = contents(fs, "out");
  for (const auto& [path, data] : files) {
    if (path.ends_with(".report.json")) continue;
    for (int i = 0; i < 12; ++i) {
      const uint64_t at = random.below(data.size());
      fs.content(path)[at] ^= static_cast<uint8_t>(1 + random.below(255));
      EXPECT_FALSE(damages(fs, "out").empty()) << path << " byte " << at << " seed " << seed;
      fs.content(path) = data;
    }
    fs.content(path).pop_back();
    EXPECT_FALSE(damages(fs, "out").empty()) << path;
    fs.content(path) = data;
  }
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
}

}  // namespace
}  // namespace forebay::store
