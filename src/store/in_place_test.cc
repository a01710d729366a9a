#include "store/in_place.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/faulty.h"
#include "store/indexing.h"
#include "store/inspect.h"
#include "store/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<const Dataset> open(const io::FileSystem& fs, const std::string& path) {
  auto dataset = open_dataset(fs, path);
  EXPECT_TRUE(dataset) << base::status_of(dataset).message();
  return dataset.value_or(nullptr);
}

TEST(InPlace, IsTheFolderInItsOrder) {
  io::MemoryFileSystem fs;
  put(fs, "/set/b/2.jpg", base::as_bytes("second"));
  put(fs, "/set/b/1.PNG", base::as_bytes("first!"));
  put(fs, "/set/a/deep/9.jpeg", base::as_bytes("nine"));
  put(fs, "/set/a/notes.txt", base::as_bytes("no image"));
  const auto dataset = open(fs, "/set");
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->schema().classes, (std::vector<std::string>{"a", "b"}));
  const std::vector<std::string> keys{"a/deep/9", "b/1", "b/2"};
  const std::vector<std::string> contents{"nine", "first!", "second"};
  ASSERT_EQ(dataset->sample_count(), keys.size());
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const Location location = dataset->location(i);
    EXPECT_EQ(dataset->key(i).value(), keys[i]);
    EXPECT_EQ(dataset->find(keys[i]).value(), i);
    EXPECT_EQ(dataset->chunk_of(i), i);
    EXPECT_EQ(location.label, i == 0 ? 0 : 1);
    base::ByteVector file;
    ASSERT_TRUE(read_file_at(fs, *dataset, location, &file).ok());
    EXPECT_EQ(base::as_text(file), contents[i]);
  }
  EXPECT_EQ(dataset->find("b/3").value(), std::nullopt);
  EXPECT_EQ(dataset->find("").value(), std::nullopt);
  EXPECT_EQ(dataset->read_chunk_index(0).error().code(), Code::kUnsupported);
}

TEST(InPlace, FingerprintIsOfNamesClassesAndSizes) {
  const auto fingerprint = [](const std::string& root, std::string_view name,
                              std::string_view text) {
    io::MemoryFileSystem fs;
    put(fs, root + "/a/1.jpg", base::as_bytes("one"));
    put(fs, root + "/b/" + std::string(name), base::as_bytes(text));
    return open(fs, root)->fingerprint();
  };
  const auto expected = fingerprint("/set", "2.jpg", "two");
  EXPECT_EQ(fingerprint("/elsewhere/set", "2.jpg", "two"), expected);
  EXPECT_NE(fingerprint("/set", "3.jpg", "two"), expected);
  EXPECT_NE(fingerprint("/set", "2.jpg", "three"), expected);
}

TEST(InPlace, SaysWhatItCannotRead) {
  io::MemoryFileSystem fs;
  const auto error = [&](const std::string& path) { return open_dataset(fs, path).error(); };
  EXPECT_EQ(error("/nowhere").code(), Code::kNotFound);
  put(fs, "/flat/1.jpg", base::as_bytes("one"));
  EXPECT_THAT(error("/flat").message(), HasSubstr("no subfolders"));
  put(fs, "/broken/HEAD", base::as_bytes("nothing"));
  put(fs, "/broken/a/1.jpg", base::as_bytes("one"));
  EXPECT_THAT(error("/broken").message(), HasSubstr("HEAD"));
  put(fs, "/shards/1.tar", base::as_bytes(std::string(1024, '\0')));
  EXPECT_THAT(error("/shards").message(), HasSubstr("no samples in it"));
  put(fs, "/gzip/1.tar", base::as_bytes("\x1f\x8b and so on"));
  EXPECT_THAT(error("/gzip").message(), HasSubstr("unpack it with `gzip -d`"));
}

// Nothing is read ahead of it, so that it takes no memory; the others are not lost.
TEST(InPlace, FileThatIsTooLargeIsOneBadSample) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes(std::string(base::kImageBytesMax + 1, 'x')));
  put(fs, "/set/a/2.jpg", base::as_bytes("two"));
  const auto dataset = open(fs, "/set");
  base::ByteVector file;
  EXPECT_EQ(dataset->chunk(0).bytes, 0u);
  EXPECT_EQ(read_file_at(fs, *dataset, dataset->location(0), &file).code(), Code::kTooBig);
  EXPECT_TRUE(read_file_at(fs, *dataset, dataset->location(1), &file).ok());
}

// Two shards: the image before, between and behind what else a sample has; the last sample's class
// is none.
void put_shards(io::MemoryFileSystem& fs, const std::string& folder) {
  ByteVector first;
  add_member("a/0.jpg", base::as_bytes("zero"), &first);
  add_member("a/0.cls", base::as_bytes("3\n"), &first);
  add_member("a/1.cls", base::as_bytes("1"), &first);
  add_member("a/1.png", base::as_bytes("one"), &first);
  add_member("a/1.txt", base::as_bytes("a text"), &first);
  append_tar_end(&first);
  ByteVector second;
  add_member("b.json", base::as_bytes("{}"), &second);
  add_member("b.JPEG", base::as_bytes("bee"), &second);
  add_member("c.jpg", base::as_bytes("sea"), &second);
  add_member("c.cls", base::as_bytes("many"), &second);
  append_tar_end(&second);
  put(fs, folder + "/x-0.tar", first);
  put(fs, folder + "/x-1.tar", second);
}

// Keys, labels and contents, as "key label content".
std::vector<std::string> samples_of(const io::FileSystem& fs, const Dataset& dataset) {
  std::vector<std::string> out;
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    const Location location = dataset.location(i);
    base::ByteVector file;
    const Status status = read_file_at(fs, dataset, location, &file);
    out.push_back(fmt::format("{} {} {}", dataset.key(i).value(), location.label,
                              status.ok() ? base::as_text(file) : status.message()));
    EXPECT_EQ(dataset.find(dataset.key(i).value()).value(), i);
  }
  return out;
}

TEST(InPlace, ShardsAreTheirImagesInTheirOrder) {
  io::MemoryFileSystem fs;
  put_shards(fs, "/set");
  for (const char* source : {"/set", "/set/", "/set/x-{0..1}.tar"}) {
    const auto dataset = open(fs, source);
    ASSERT_NE(dataset, nullptr);
    EXPECT_THAT(samples_of(fs, *dataset), ElementsAre("a/0 3 zero", "a/1 1 one", "b -1 bee"));
    EXPECT_EQ(dataset->chunk_count(), 2u);
    EXPECT_EQ(dataset->chunk_of(1), 0u);
    EXPECT_EQ(dataset->chunk_of(2), 1u);
    EXPECT_THAT(dataset->chunk_keys(0).value(), ElementsAre("a/0", "a/1"));
    EXPECT_EQ(dataset->find("c").value(), std::nullopt);
    EXPECT_THAT(dataset->notes(), ElementsAre(HasSubstr("c.jpg: .cls: \"many\" is no class")));
  }
  EXPECT_THAT(samples_of(fs, *open(fs, "/set/x-1.tar")), ElementsAre("b -1 bee"));
}

TEST(InPlace, AShardOfReadableClassesOnlyIsNeeded) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("c.jpg", base::as_bytes("sea"), &tar);
  add_member("c.cls", base::as_bytes("many"), &tar);
  append_tar_end(&tar);
  put(fs, "/c.tar", tar);
  const Status error = base::status_of(open_dataset(fs, "/c.tar"));
  EXPECT_EQ(error.code(), Code::kInvalid);
  EXPECT_THAT(error.message(), HasSubstr("no sample whose class can be read"));
}

// A chunk is in memory whole: a shard of 5 GB may not be one.
TEST(InPlace, ALargeShardIsSeveralChunks) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  const ByteVector image(10'000'000, 'x');
  for (int i = 0; i < 15; ++i) {
    add_member(fmt::format("{:02}.jpg", i), image, &tar);
  }
  append_tar_end(&tar);
  put(fs, "/x.tar", tar);
  const auto dataset = open(fs, "/x.tar");
  ASSERT_NE(dataset, nullptr);
  ASSERT_EQ(dataset->chunk_count(), 3u);
  uint64_t samples = 0;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const ChunkInfo& chunk = dataset->chunk(i);
    EXPECT_EQ(chunk.first_sample, samples);
    EXPECT_EQ(chunk.offset, bytes);
    EXPECT_LT(chunk.bytes, 70'000'000u);
    for (uint32_t k = 0; k < chunk.samples; ++k, ++samples) {
      const Location location = dataset->location(samples);
      EXPECT_EQ(location.chunk, i);
      EXPECT_TRUE(base::in_bounds(location.offset - chunk.offset, location.length, chunk.bytes));
    }
    bytes += chunk.bytes;
  }
  EXPECT_EQ(samples, 15u);
  EXPECT_EQ(bytes, tar.size());
}

TEST(InPlace, AShardThatChangedGivesBadSamples) {
  io::MemoryFileSystem fs;
  put_shards(fs, "/set");
  const auto dataset = open(fs, "/set");
  const auto read = [&] {
    base::ByteVector file;
    return read_file_at(fs, *dataset, dataset->location(2), &file);
  };
  EXPECT_TRUE(read().ok());
  fs.set_modified("/set/x-1.tar", 1);
  EXPECT_EQ(read().code(), Code::kCorrupt);
  EXPECT_THAT(read().message(), HasSubstr("written to: open the data again"));
  fs.set_modified("/set/x-1.tar", 0);
  fs.content("/set/x-1.tar").resize(600);
  EXPECT_EQ(read().code(), Code::kCorrupt);
  EXPECT_THAT(read().message(), HasSubstr("to 600: open the data again"));
}

TEST(InPlace, AFileThatGrewIsABadSample) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  ASSERT_TRUE(write_index(fs, "/set", {}));
  const auto dataset = open(fs, "/set");
  put(fs, "/set/a/1.jpg", base::as_bytes("longer"));
  base::ByteVector file;
  const Status status = read_file_at(fs, *dataset, dataset->location(0), &file);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("its size changed since it was indexed, from 3 bytes to "
                                          "6: run `forebay index /set` again"));
}

// What lies where, with and without an index, is the same; with one nothing is listed.
TEST(InPlaceIndexed, IsTheSameWithoutListing) {
  for (const bool shards : {false, true}) {
    io::MemoryFileSystem fs;
    if (shards) {
      put_shards(fs, "/set");
    } else {
      put(fs, "/set/a/1.jpg", base::as_bytes("one"));
      put(fs, "/set/b/deep/er/2.x.png", base::as_bytes("two"));
    }
    const auto listed = open(fs, "/set");
    for (const bool checksums : {false, true}) {
      const auto report = write_index(fs, "/set", {.checksums = checksums, .threads = 2});
      ASSERT_TRUE(report) << report.error().message();
      EXPECT_EQ(report->path, "/set/.forebay/index");
      EXPECT_EQ(report->samples, listed->sample_count());
      EXPECT_EQ(report->files, 2u);
      const auto indexed = open(fs, "/set");
      EXPECT_EQ(samples_of(fs, *indexed), samples_of(fs, *listed));
      EXPECT_EQ(indexed->fingerprint(), listed->fingerprint());
      EXPECT_EQ(indexed->schema(), listed->schema());
      EXPECT_EQ(indexed->notes(), listed->notes());
      EXPECT_EQ(indexed->location(0).crc32c.has_value(), checksums);
    }
    // One byte of an image, at the same size and time.
    const std::string path = listed->chunk_path(0);
    fs.content(path)[listed->location(0).offset] ^= 1;
    base::ByteVector file;
    const auto indexed = open(fs, "/set");
    EXPECT_THAT(read_file_at(fs, *indexed, indexed->location(0), &file).message(),
                HasSubstr("checksum"));
    // Nothing of a folder but its time is looked at, nothing of a shard but size and time.
    fs.content(path).assign(fs.content(path).size(), 0);
    EXPECT_EQ(open(fs, "/set")->sample_count(), listed->sample_count());
  }
}

TEST(InPlaceIndexed, IsNotUsedWhenSomethingChanged) {
  const auto notes = [](bool shards, auto change) {
    io::MemoryFileSystem fs;
    if (shards) put_shards(fs, "/set");
    put(fs, "/set/a/deep/1.jpg", base::as_bytes("one"));
    EXPECT_TRUE(write_index(fs, "/set", {}));
    change(fs);
    const auto dataset = open(fs, "/set");
    return dataset->notes().empty() ? std::string() : dataset->notes().back();
  };
  EXPECT_EQ(notes(false, [](auto&) {}), "");
  EXPECT_THAT(notes(true, [](auto&) {}), Not(HasSubstr("index /set")));
  for (const char* folder : {"/set", "/set/a", "/set/a/deep"}) {
    EXPECT_THAT(notes(false, [&](auto& fs) { fs.set_modified(folder, 1); }),
                HasSubstr(fmt::format("files came to or went from {} since it was made; so "
                                      "everything was listed, which takes longer: run `forebay "
                                      "index /set` again",
                                      folder)));
  }
  EXPECT_THAT(notes(false, [&](auto& fs) { put_shards(fs, "/set"); }), HasSubstr("another kind"));
  EXPECT_THAT(notes(true, [&](auto& fs) { fs.set_modified("/set/x-1.tar", 1); }),
              HasSubstr("/set/x-1.tar was written to"));
  EXPECT_THAT(notes(true, [&](auto& fs) { fs.content("/set/x-1.tar").resize(6144); }),
              HasSubstr("/set/x-1.tar was written to"));
  EXPECT_THAT(notes(true, [&](auto& fs) { EXPECT_TRUE(fs.remove("/set/x-1.tar").ok()); }),
              HasSubstr("the shard x-1.tar is gone"));
  EXPECT_THAT(
      notes(true, [&](auto& fs) { EXPECT_TRUE(fs.rename("/set/x-1.tar", "/set/y.tar").ok()); }),
      HasSubstr("/set/y.tar is where another shard was"));
}

TEST(InPlaceIndexed, ADamagedIndexIsSaidAndNotUsed) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  ASSERT_TRUE(write_index(fs, "/set", {}));
  fs.content("/set/.forebay/index")[20] ^= 1;
  const auto dataset = open(fs, "/set");
  EXPECT_EQ(dataset->sample_count(), 1u);
  EXPECT_THAT(dataset->notes(), ElementsAre(HasSubstr("/set/.forebay/index: its checksum does not "
                                                      "match")));
}

TEST(InPlaceIndexed, EachWayToNameShardsHasItsOwn) {
  io::MemoryFileSystem fs;
  put_shards(fs, "/set/a");
  put_shards(fs, "/set/b");
  const auto path = [&](const char* source) { return index_path(find_source(fs, source).value()); };
  EXPECT_EQ(path("/set/a"), "/set/a/.forebay/index");
  EXPECT_EQ(path("/set/a/x-0.tar"), "/set/a/.forebay/x-0.tar.index");
  EXPECT_EQ(path("/set/{0..1}/x.tar"), "/set/.forebay/{0..1}%2Fx.tar.index");
  EXPECT_EQ(path("x-{0..1}.tar"), "./.forebay/x-{0..1}.tar.index");
  ASSERT_TRUE(write_index(fs, "/set/a/x-{0..1}.tar", {}));
  EXPECT_EQ(open(fs, "/set/a/x-{0..1}.tar")->sample_count(), 3u);
  EXPECT_EQ(open(fs, "/set/a/x-0.tar")->sample_count(), 2u);
}

TEST(InPlaceIndexed, WhateverFailsNoHalfIndexIsLeft) {
  using Fault = io::FaultyFileSystem::Fault;
  for (const auto on : {Fault::On::kWrite, Fault::On::kRead}) {
    for (int64_t at = 0;; ++at) {
      io::MemoryFileSystem fs;
      put(fs, "/set/a/1.jpg", base::as_bytes("one"));
      io::FaultyFileSystem faulty(fs, {.on = on, .at = at, .for_ever = false});
      const auto report = write_index(faulty, "/set", {.checksums = true, .threads = 1});
      const auto dataset = open(fs, "/set");
      EXPECT_THAT(dataset->notes(), IsEmpty()) << at;
      EXPECT_EQ(samples_of(fs, *dataset), std::vector<std::string>{"a/1 0 one"});
      if (report) break;
    }
  }
}

TEST(InPlaceIndexed, APackedDatasetIsRefused) {
  io::MemoryFileSystem fs;
  put(fs, "/set/HEAD", base::as_bytes("x"));
  EXPECT_EQ(write_index(fs, "/set", {}).error().code(), Code::kUnsupported);
  EXPECT_FALSE(fs.stat("/set/.forebay"));
}

TEST(InPlace, IsListedInspectedAndVerified) {
  io::MemoryFileSystem fs;
  const ByteVector jpeg = test_jpeg(40, 30, 1);
  put(fs, "/set/a/1.jpg", jpeg);
  put(fs, "/set/b/2.jpg", base::as_bytes("no image"));
  std::vector<std::string> lines;
  ASSERT_TRUE(list_samples(fs, "/set", [&](const SampleLine& line) {
                lines.push_back(
                    fmt::format("{} {} {} {}", line.key, line.class_name, line.bytes, line.width));
              }).ok());
  EXPECT_THAT(lines, ElementsAre(fmt::format("a/1 a {} 0", jpeg.size()), "b/2 b 8 0"));
  EXPECT_THAT(describe_dataset(fs, "/set").value(), HasSubstr("/set, in place\n  2 samples"));
  EXPECT_THAT(describe_item(fs, "/set", "a/1").value(), HasSubstr("40 x 30 pixels"));
  EXPECT_THAT(describe_item(fs, "/set", "1").value(), HasSubstr("chunk 1: /set/b/2.jpg"));
  EXPECT_THAT(describe_item(fs, "/set", "b/2").error().message(), HasSubstr("/set/b/2.jpg"));
  EXPECT_THAT(describe_item(fs, "/set", "none").error().message(), HasSubstr("neither a key"));
  EXPECT_THAT(describe_crop(fs, "/set", "a/1", {0, 0, 9, 9}).value(), HasSubstr("needs all of"));
  EXPECT_EQ(describe_crop(fs, "/set", "a/1", {39, 0, 9, 9}).error().code(), Code::kInvalid);

  EXPECT_THAT(damages(fs, "/set", false), IsEmpty());
  EXPECT_THAT(damages(fs, "/set", true), ElementsAre(HasSubstr("sample \"b/2\"")));
  ASSERT_TRUE(write_index(fs, "/set", {.checksums = true}));
  fs.content("/set/a/1.jpg")[50] ^= 1;
  fs.content("/set/b/2.jpg").push_back('x');
  EXPECT_THAT(damages(fs, "/set", false),
              ElementsAre(HasSubstr("/set/a/1.jpg: byte 0: sample \"a/1\": (chunk 0) its bytes do "
                                    "not have the checksum"),
                          HasSubstr("/set/b/2.jpg: (chunk 1) /set/b/2.jpg: its size changed")));
}

}  // namespace
}  // namespace forebay::store
