// pack from end to end on a file system in memory: the same bytes whatever threads, faults and
// power losses; what is damaged is listed; what comes back by verify and by export.
#include "store/pack.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/faulty.h"
#include "jpeg/decode.h"
#include "store/export.h"
#include "store/inspect.h"
#include "store/journal.h"
#include "store/pack_samples.h"
#include "store/snapshot.h"

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
    // The first operations make the folder and take the lock.
    if (at > 2) {
      EXPECT_THAT(broken.error().message(), HasSubstr("run the same command again to go on")) << at;
    }
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

// A bug once: a folder with chunks and without HEAD was taken for an abandoned pack and cleaned.
TEST(Pack, ADatasetThatLostItsHeadIsLeftAlone) {
  io::MemoryFileSystem fs;
  make_source(fs, 6);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  ASSERT_TRUE(fs.remove("out/HEAD").ok());
  const auto before = contents(fs, "out");
  const auto refused = pack(fs, "src", "out", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("out/chunks is not empty"));
  EXPECT_EQ(contents(fs, "out"), before);
}

// A bug once: `forebay pack X/chunks X` deleted the shards that it was to pack.
TEST(Pack, ShardsInsideTheDatasetAreNeverTouched) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("a.jpg", test_jpeg(40, 30, 1), &tar);
  append_tar_end(&tar);
  for (const char* shard : {"x/chunks/a.tar", "y/b.tar"}) put(fs, shard, tar);
  for (const auto& [source, dataset] :
       {std::pair("x/chunks", "x"), std::pair("x/chunks/a.tar", "x"), std::pair("y", "y")}) {
    const auto refused = pack(fs, source, dataset, small_chunks());
    ASSERT_FALSE(refused) << source;
    EXPECT_EQ(refused.error().code(), Code::kInvalid);
    EXPECT_THAT(refused.error().message(), HasSubstr("is inside the dataset"));
  }
  // From elsewhere, into a folder that has other tars where the chunks would be.
  const auto refused = pack(fs, "y", "x", small_chunks());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_EQ(*io::read_file(fs, "x/chunks/a.tar", 1u << 20), tar);
  EXPECT_EQ(*io::read_file(fs, "y/b.tar", 1u << 20), tar);
}

TEST(Pack, CleansUpOnlyWhatItMade) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  const std::string unknown = chunk_path("out", base::sha256({}));
  for (const std::string& path :
       {std::string("out/chunks/mine.tar"), std::string("out/chunks/1a.tmp"),
        std::string("out/chunks/.tmp"), unknown, std::string("out/chunks/7.tmp")}) {
    put(fs, path, base::as_bytes("x"));
  }
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  EXPECT_TRUE(fs.stat("out/chunks/mine.tar"));
  EXPECT_TRUE(fs.stat("out/chunks/1a.tmp"));
  EXPECT_TRUE(fs.stat("out/chunks/.tmp"));
  EXPECT_FALSE(fs.stat("out/chunks/7.tmp"));
  EXPECT_FALSE(fs.stat(unknown));
}

// A bug once: JSON of other types than expected threw; and lengths were taken as they came.
TEST(Pack, AHostileJournalIsAnErrorWithItsPath) {
  io::MemoryFileSystem fs;
  make_source(fs);
  io::FaultyFileSystem faulty(fs, {.at = 30});
  ASSERT_FALSE(pack(faulty, "src", "out", small_chunks()));
  const ByteVector good = fs.content("out/journal");
  const std::string hash(64, '0');
  const auto with_line = [&](const std::string& json) {
    fs.content("out/journal") = good;
    const std::string line = fmt::format("{:08x} {}\n", base::crc32c(base::as_bytes(json)), json);
    base::ByteWriter(&fs.content("out/journal")).bytes(base::as_bytes(line));
    const auto done = pack(fs, "src", "out", small_chunks());
    if (done) return std::string("accepted");
    EXPECT_EQ(done.error().code(), Code::kCorrupt) << json;
    EXPECT_THAT(done.error().message(), HasSubstr("out/journal"));
    return done.error().message();
  };
  const std::string stats = R"("stats": {"samples": 1, "source_bytes": 1, "rewritten": 0, )"
                            R"("jpeg_bytes_in": 0, "jpeg_bytes_out": 0, "kept": {}, )"
                            R"("kept_jpegs": [], "refused": []}})";
  const auto record = [&](const std::string& id, const char* bytes, const char* index) {
    return fmt::format(R"({{"chunk": 0, "id": {}, "bytes": {}, "index_bytes": {}, {})", id, bytes,
                       index, stats);
  };
  const std::string id = '"' + hash + '"';
  with_line(record("7", "0", "0"));
  with_line(record("null", "0", "0"));
  with_line(record(id, "-1", "0"));
  with_line(record(id, "1e300", "0"));
  with_line(record(id, "1000", "1001"));
  with_line(record(id, "18446744073709551615", "18446744073709551615"));
  with_line(R"({"chunk": 0, "id": "x", "bytes": 0, "index_bytes": 0})");
  with_line(R"({"chunk": 99999999})");
  fs.content("out/journal") = good;
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks()));
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

// A bug once: "JPEG: JPEG: byte 1234: …", a line for each image.
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
  const std::string why = "JPEG: more data behind the image (MPO, motion photo)";
  EXPECT_THAT(report->stats.kept, testing::ElementsAre(testing::Pair(why, 3u)));
  EXPECT_THAT(report->stats.kept_jpegs, SizeIs(3));
  EXPECT_THAT(describe(*report), HasSubstr("kept as they were: 3 (" + why + ")"));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  // Such a file comes back as it was.
  ASSERT_TRUE(export_dataset(fs, "out", "back", {}));
  EXPECT_EQ(fs.content("back/cat/film1.jpg"), fs.content("src/cat/film1.jpg"));
}

// A file whose pixels are whole is never refused; what the rewrite cannot hold is kept as it is.
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
  ASSERT_TRUE(export_dataset(fs, "out", "back", {}));
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
  EXPECT_THAT(keeping->stats.refused, SizeIs(1));  // libjpeg makes nothing of it
  ASSERT_THAT(keeping->stats.kept_jpegs, SizeIs(1));
  EXPECT_EQ(keeping->stats.kept_jpegs[0].reason, "JPEG: damaged");
  EXPECT_THAT(keeping->stats.kept_jpegs[0].path, HasSubstr("cut.jpg"));
  // Its bytes are what they were, and its pixels are damaged.
  EXPECT_THAT(damages(fs, "kept", false), IsEmpty());
  EXPECT_THAT(damages(fs, "kept"), SizeIs(1));
  ASSERT_TRUE(export_dataset(fs, "kept", "back", {}));
  EXPECT_EQ(fs.content("back/cat/cut.jpg"), cut);
  // A pack that was begun with one policy does not go on with the other.
  const auto other = pack(fs, "src", "refused", options);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message(), HasSubstr("--damaged"));
}

// A bug once: nobody was told.
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
  // The changed name needs its checksum.
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

}  // namespace
}  // namespace forebay::store
