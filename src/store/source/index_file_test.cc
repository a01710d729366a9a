// The index of data in place: its content, when it is up to date, and that it is not taken for
// data.
#include "store/source/index_file.h"

#include <gmock/gmock.h>

#include "io/testing/far_origin.h"
#include "io/testing/faulty.h"
#include "store/testing/in_place_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The same samples lie in the same places with and without an index. With an index nothing is
// listed.
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
      EXPECT_EQ(report->path, "/set/.forebay-index");
      EXPECT_EQ(report->samples, listed->sample_count());
      EXPECT_EQ(report->files, 2u);
      const auto indexed = open(fs, "/set");
      EXPECT_EQ(samples_of(*indexed), samples_of(*listed));
      EXPECT_EQ(indexed->fingerprint(), listed->fingerprint());
      EXPECT_EQ(indexed->schema(), listed->schema());
      EXPECT_EQ(indexed->notes(), listed->notes());
      EXPECT_EQ(indexed->location(0).crc32c.has_value(), checksums);
    }
    // One byte of an image changes, but not the file's size and time.
    const std::string path = listed->chunk_label(0);
    fs.content(path)[listed->location(0).offset] ^= 1;
    base::ByteVector file;
    const auto indexed = open(fs, "/set");
    EXPECT_THAT(indexed->read_file(indexed->location(0), &file).message(), HasSubstr("checksum"));
    // Only the time of a folder, and only the size and time of a shard, are compared.
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
  // Other things in the data's own folder do not matter, and neither does its time of change.
  EXPECT_EQ(notes(false, [](auto& fs) { fs.set_modified("/set", 1); }), "");
  EXPECT_EQ(notes(false, [](auto& fs) { put(fs, "/set/notes.txt", {}); }), "");
  EXPECT_THAT(notes(false, [](auto& fs) { put(fs, "/set/b/2.jpg", {}); }),
              HasSubstr("/set/b was added since it was made"));
  EXPECT_THAT(notes(false, [](auto& fs) { put(fs, "/set/0/2.jpg", {}); }),
              HasSubstr("/set/0 was added since it was made"));
  for (const char* folder : {"/set/a", "/set/a/deep"}) {
    EXPECT_THAT(
        notes(false, [&](auto& fs) { fs.set_modified(folder, 1); }),
        HasSubstr(fmt::format("files were added to or removed from {} since it was made; so "
                              "everything was listed, which takes longer: run `forebay "
                              "index /set` again",
                              folder)));
  }
  EXPECT_THAT(notes(false, [&](auto& fs) { put_shards(fs, "/set"); }),
              HasSubstr("the kind of data changed"));
  EXPECT_THAT(notes(true, [&](auto& fs) { fs.set_modified("/set/x-1.tar", 1); }),
              HasSubstr("/set/x-1.tar was written to"));
  EXPECT_THAT(notes(true, [&](auto& fs) { fs.content("/set/x-1.tar").resize(6144); }),
              HasSubstr("/set/x-1.tar was written to"));
  EXPECT_THAT(notes(true, [&](auto& fs) { EXPECT_TRUE(fs.remove("/set/x-1.tar").ok()); }),
              HasSubstr("the shard x-1.tar was removed"));
  EXPECT_THAT(
      notes(true, [&](auto& fs) { EXPECT_TRUE(fs.rename("/set/x-1.tar", "/set/y.tar").ok()); }),
      HasSubstr("the list of shards changed at /set/y.tar"));
}

// A bug once: a server was asked about one shard after the other.
TEST(InPlaceIndexed, ManyShardsOfAServerAreComparedAtTheSameTime) {
  io::MemoryFileSystem fs;
  ByteVector tar;
  add_member("a.jpg", base::as_bytes("a"), &tar);
  append_tar_end(&tar);
  for (int i = 10; i < 60; ++i) put(fs, fmt::format("/set/{}.tar", i), tar);
  ASSERT_TRUE(write_index(fs, "/set", {}));
  io::FarOrigin far(fs);
  far.answer_late();
  const ResolvedSource places = resolve_source(far, "/set").value();
  EXPECT_TRUE(read_index(far, places));
  EXPECT_GT(far.questions_at_once(), 4u);
  fs.set_modified("/set/40.tar", 1);
  EXPECT_THAT(base::status_of(read_index(far, places)).message(),
              HasSubstr("/set/40.tar was written to since it was made"));
}

TEST(InPlaceIndexed, ADamagedIndexIsSaidAndNotUsed) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  ASSERT_TRUE(write_index(fs, "/set", {}));
  fs.content("/set/.forebay-index")[20] ^= 1;
  const auto dataset = open(fs, "/set");
  EXPECT_EQ(dataset->sample_count(), 1u);
  EXPECT_THAT(dataset->notes(), ElementsAre(HasSubstr("/set/.forebay-index: its checksum does not "
                                                      "match")));
}

TEST(InPlaceIndexed, EachWayToNameShardsHasItsOwn) {
  io::MemoryFileSystem fs;
  put_shards(fs, "/set/a");
  put_shards(fs, "/set/b");
  const auto path = [&](const char* source) {
    return index_path(resolve_source(fs, source).value());
  };
  EXPECT_EQ(path("/set/a"), "/set/a/.forebay-index");
  EXPECT_EQ(path("/set/a/x-0.tar"), "/set/a/.forebay-x-0.tar.index");
  EXPECT_EQ(path("/set/{0..1}/x.tar"), "/set/.forebay-{0..1}%2Fx.tar.index");
  EXPECT_EQ(path("x-{0..1}.tar"), "./.forebay-x-{0..1}.tar.index");
  ASSERT_TRUE(write_index(fs, "/set/a/x-{0..1}.tar", {}));
  EXPECT_EQ(open(fs, "/set/a/x-{0..1}.tar")->sample_count(), 3u);
  EXPECT_EQ(open(fs, "/set/a/x-0.tar")->sample_count(), 2u);
}

// A bug once: a shard with a long name warned at every opening that its index cannot be read.
TEST(InPlaceIndexed, NoNameIsTooLongForAFile) {
  const auto path_of = [](const std::string& name) {
    ResolvedSource places;
    places.folder = "set";
    places.name = name;
    return index_path(places);
  };
  for (const size_t length : {1u, 200u, 255u, 600u}) {
    EXPECT_LE(path_of(std::string(length, 'x') + ".tar").size(), std::string("set/").size() + 255);
  }
  EXPECT_NE(path_of(std::string(300, 'x') + "1.tar"), path_of(std::string(300, 'x') + "2.tar"));
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
      EXPECT_EQ(samples_of(*dataset), std::vector<std::string>{"a/1 0 one"});
      if (report) break;
    }
  }
}

TEST(InPlaceIndexed, APackedDatasetIsRefused) {
  io::MemoryFileSystem fs;
  put(fs, "/set/HEAD", base::as_bytes("x"));
  EXPECT_EQ(write_index(fs, "/set", {}).error().code(), Code::kUnsupported);
  EXPECT_EQ(fs.list("/set").value().size(), 1u);
}

std::vector<std::string> names_in(const io::Origin& fs, const std::string& folder) {
  std::vector<std::string> names;
  const auto entries = fs.list(folder).value();
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

void leave_unfinished_index(io::MemoryFileSystem& fs) {
  io::FaultyFileSystem killed(fs, {.at = 3});  // the rename
  ASSERT_FALSE(killed.put("/set/.forebay-index", {}).ok());
  ASSERT_THAT(names_in(fs, "/set"), Contains(testing::EndsWith(".tmp")));
}

// A bug once: the index lay in a folder of its own, which ImageFolder took for a class.
TEST(InPlaceIndexed, IsOnePlainHiddenFileAndNoPartOfTheData) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  put_shards(fs, "/shards");
  const auto before = list_source(fs, "/set").value();
  // A writer that was killed leaves these files.
  put(fs, "/set/.forebay-index.lock", {});
  leave_unfinished_index(fs);
  EXPECT_EQ(list_source(fs, "/set")->ignored, before.ignored);
  ASSERT_TRUE(write_index(fs, "/set", {}));
  EXPECT_THAT(names_in(fs, "/set"), ElementsAre(".forebay-index", "a"));
  EXPECT_EQ(list_source(fs, "/set")->ignored, before.ignored);
  ASSERT_TRUE(write_index(fs, "/shards", {}));
  ASSERT_TRUE(write_index(fs, "/shards/x-0.tar", {}));
  EXPECT_THAT(names_in(fs, "/shards"),
              ElementsAre(".forebay-index", ".forebay-x-0.tar.index", "x-0.tar", "x-1.tar"));
  EXPECT_EQ(resolve_source(fs, "/shards")->shards.size(), 2u);
}

TEST(InPlaceIndexed, AnOldIndexsFolderIsNoClassAndSaid) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  put(fs, "/set/.forebay/index", base::as_bytes("an old index"));
  const auto dataset = open(fs, "/set");
  EXPECT_THAT(dataset->schema().classes, ElementsAre("a"));
  EXPECT_THAT(dataset->notes(), ElementsAre(HasSubstr("delete it")));
}

TEST(InPlaceIndexed, OneIsWrittenAtATime) {
  io::MemoryFileSystem fs;
  put(fs, "/set/a/1.jpg", base::as_bytes("one"));
  {
    const auto held = fs.lock("/set/.forebay-index.lock");
    EXPECT_EQ(write_index(fs, "/set", {}).error().code(), Code::kBusy);
  }
  EXPECT_TRUE(write_index(fs, "/set", {}));
}

}  // namespace
}  // namespace forebay::store
