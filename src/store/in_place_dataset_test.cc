#include "store/in_place_dataset.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "store/check/inspect.h"
#include "store/export.h"
#include "store/source/index_file.h"
#include "store/testing/in_place_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    ASSERT_TRUE(dataset->read_file(location, &file).ok());
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

TEST(InPlace, TakesImagesThatLieInTheFolderItself) {
  io::MemoryFileSystem fs;
  put(fs, "/flat/b.jpg", base::as_bytes("two"));
  put(fs, "/flat/a.png", base::as_bytes("one"));
  put(fs, "/flat/notes.txt", base::as_bytes("no image"));
  const auto dataset = open(fs, "/flat");
  ASSERT_EQ(dataset->sample_count(), 2u);
  EXPECT_EQ(*dataset->key(0), "a");
  EXPECT_EQ(*dataset->key(1), "b");
  EXPECT_EQ(dataset->location(0).label, -1);
  base::ByteVector file;
  ASSERT_TRUE(dataset->read_file(dataset->location(1), &file).ok());
  EXPECT_EQ(base::as_text(file), "two");
}

TEST(InPlace, SaysWhatItCannotRead) {
  io::MemoryFileSystem fs;
  const auto error = [&](const std::string& path) { return open_dataset(fs, path).error(); };
  EXPECT_EQ(error("/nowhere").code(), Code::kNotFound);
  put(fs, "/flat/1.txt", base::as_bytes("one"));
  EXPECT_THAT(error("/flat").message(), HasSubstr("no images"));
  put(fs, "/broken/HEAD", base::as_bytes("nothing"));
  put(fs, "/broken/a/1.jpg", base::as_bytes("one"));
  EXPECT_THAT(error("/broken").message(), HasSubstr("HEAD"));
  put(fs, "/shards/1.tar", base::as_bytes(std::string(1024, '\0')));
  EXPECT_THAT(error("/shards").message(), HasSubstr("no samples in it"));
  put(fs, "/gzip/1.tar", base::as_bytes("\x1f\x8b and so on"));
  EXPECT_THAT(error("/gzip").message(), HasSubstr("unpack it with `gzip -d`"));
}

// An image that is too large is not read with its group, so that it takes no memory. The other
// samples are not lost.
TEST(InPlace, FileThatIsTooLargeIsOneBadSample) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes(std::string(base::kImageBytesMax + 1, 'x')));
  put(fs, "/set/a/2.jpg", base::as_bytes("two"));
  const auto dataset = open(fs, "/set");
  base::ByteVector file;
  EXPECT_EQ(dataset->chunk(0).bytes, 0u);
  EXPECT_EQ(dataset->read_file(dataset->location(0), &file).code(), Code::kTooBig);
  EXPECT_TRUE(dataset->read_file(dataset->location(1), &file).ok());
}

TEST(InPlace, ShardsAreTheirImagesInTheirOrder) {
  io::MemoryFileSystem fs;
  put_shards(fs, "/set");
  for (const char* source : {"/set", "/set/", "/set/x-{0..1}.tar"}) {
    const auto dataset = open(fs, source);
    ASSERT_NE(dataset, nullptr);
    EXPECT_THAT(samples_of(*dataset), ElementsAre("a/0 3 zero", "a/1 1 one", "b -1 bee"));
    EXPECT_EQ(dataset->chunk_count(), 2u);
    EXPECT_EQ(dataset->chunk_of(1), 0u);
    EXPECT_EQ(dataset->chunk_of(2), 1u);
    EXPECT_THAT(dataset->chunk_keys(0).value(), ElementsAre("a/0", "a/1"));
    EXPECT_EQ(dataset->find("c").value(), std::nullopt);
    EXPECT_THAT(
        dataset->notes(),
        ElementsAre(HasSubstr("1 of 3 samples have no class, so their label is -1; the first is b"),
                    HasSubstr("c.jpg: .cls: \"many\" is not a class")));
  }
  EXPECT_THAT(samples_of(*open(fs, "/set/x-1.tar")), ElementsAre("b -1 bee"));
}

TEST(InPlace, ShardsWithTheSameKeysAndFoldersAreReadPackedAndExported) {
  io::MemoryFileSystem fs;
  put_folders_in_shards(fs, "/set");
  const auto listed = open(fs, "/set");
  ASSERT_TRUE(write_index(fs, "/set", {}));
  PackOptions in_order = small_chunks();
  in_order.shuffled = false;
  ASSERT_TRUE(pack(fs, "/set", "/packed", in_order));
  EXPECT_THAT(damages(fs, "/packed"), IsEmpty());
  const std::vector<std::string> keys{"x-0/dog/0", "x-0/cat/0", "x-1/dog/0", "x-1/cat/0"};
  for (const auto& dataset : {listed, open(fs, "/set"), open(fs, "/packed")}) {
    EXPECT_THAT(dataset->notes(), IsEmpty());
    EXPECT_THAT(dataset->schema().classes, ElementsAre("cat", "dog"));
    ASSERT_EQ(dataset->sample_count(), keys.size());
    for (uint64_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(dataset->key(i).value(), keys[i]);
      EXPECT_EQ(dataset->find(keys[i]).value(), i);
      EXPECT_EQ(dataset->location(i).label, i % 2 == 0 ? 1 : 0);
    }
    EXPECT_EQ(dataset->find("dog/0").value(), std::nullopt);
  }
  EXPECT_EQ(open(fs, "/set/x-1.tar")->find("cat/0").value(), 1u);
  // The source is a folder by class again, with a name for each class.
  ASSERT_TRUE(export_dataset(fs, "/packed", fs, "/out", {}));
  EXPECT_EQ(open(fs, "/out")->schema().classes, listed->schema().classes);
  EXPECT_EQ(open(fs, "/out")->key(0).value(), "cat/x-0/cat/0");
  EXPECT_EQ(open(fs, "/out")->sample_count(), keys.size());
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

// A chunk is in memory as a whole, so a shard of 5 GB must not be a single chunk.
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
    return dataset->read_file(dataset->location(2), &file);
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
  const Status status = dataset->read_file(dataset->location(0), &file);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("its size changed since it was indexed, from 3 bytes to "
                                          "6: run `forebay index /set` again"));
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

  for (const bool pixels : {false, true}) {
    EXPECT_THAT(damages(fs, "/set", pixels), ElementsAre(HasSubstr("sample \"b/2\"")));
  }
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
