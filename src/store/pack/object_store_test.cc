// Pack, index, export and verify on an object store: no folders, no renames, no locks.
#include "io/testing/object_store.h"

#include <gmock/gmock.h>

#include <thread>

#include "store/export.h"
#include "store/format/snapshot.h"
#include "store/pack/journal.h"
#include "store/pack/pack.h"
#include "store/source/index_file.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using testing::HasSubstr;
using testing::IsEmpty;

std::map<std::string, ByteVector> packed_on_a_disk(int images) {
  io::MemoryFileSystem disk;
  make_source(disk, images);
  EXPECT_TRUE(pack(disk, "src", "out", small_chunks()));
  return contents(disk, "out");
}

TEST(ObjectStore, HoldsTheSameDatasetAsADisk) {
  io::ObjectStore fs;
  make_source(fs);
  const auto report = pack(fs, "src", "out", small_chunks(3));
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(contents(fs, "out"), packed_on_a_disk(24));
  EXPECT_THAT(damages(fs, "out"), IsEmpty());
  const auto again = pack(fs, "src", "out", small_chunks());
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->was_complete);
  const auto exported = export_dataset(fs, "out", fs, "back", {});
  ASSERT_TRUE(exported) << exported.error().message();
  EXPECT_EQ(exported->files, 24u);
  EXPECT_EQ(export_dataset(fs, "out", fs, "back", {}).error().code(), Code::kExists);
  const auto indexed = write_index(fs, "src", {});
  ASSERT_TRUE(indexed) << indexed.error().message();
  EXPECT_EQ(indexed->samples, 24u);
  ASSERT_EQ(indexed->remarks.size(), 1u);
  EXPECT_THAT(indexed->remarks[0].reason,
              HasSubstr("files that are added or removed later are not noticed"));
}

// The process is killed at every put and removal in turn, which takes place or does not.
TEST(ObjectStore, APackGoesOnAfterAKillAtEveryChange) {
  const auto expected = packed_on_a_disk(12);
  for (const bool takes_place : {false, true}) {
    for (int64_t at = 0;; ++at) {
      io::ObjectStore fs;
      make_source(fs, 12);
      fs.fail_from(at, takes_place);
      const auto killed = pack(fs, "src", "out", small_chunks(2));
      fs.recover();
      const auto report = pack(fs, "src", "out", small_chunks());
      ASSERT_TRUE(report) << at << ": " << report.error().message();
      ASSERT_EQ(contents(fs, "out"), expected) << at;
      if (killed) {
        EXPECT_GT(at, 15);
        break;
      }
    }
  }
}

// Nothing keeps two runs apart, so they must make the same dataset and leave nothing else.
TEST(ObjectStore, TwoRunsOfAPackAtTheSameTimeMakeOneDataset) {
  const auto expected = packed_on_a_disk(24);
  for (int round = 0; round < 10; ++round) {
    io::ObjectStore fs;
    make_source(fs);
    std::vector<std::thread> runs;
    for (int i = 0; i < 3; ++i) {
      runs.emplace_back([&fs, i] {
        const auto report = pack(fs, "src", "out", small_chunks(1 + i % 2));
        EXPECT_TRUE(report) << report.error().message();
      });
    }
    for (std::thread& run : runs) run.join();
    EXPECT_THAT(damages(fs, "out"), IsEmpty());
    // A run that was late may have added a record after the others had removed the journal; the
    // next one removes it.
    ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
    ASSERT_EQ(contents(fs, "out"), expected) << round;
  }
}

TEST(ObjectStore, AnotherPackDoesNotMixWithOneThatWasBegun) {
  io::ObjectStore fs;
  make_source(fs);
  fs.fail_from(7, false);
  ASSERT_FALSE(pack(fs, "src", "out", small_chunks()));
  fs.recover();
  const auto before = contents(fs, "out");
  PackOptions other = small_chunks();
  other.seed = 7;
  const auto refused = pack(fs, "src", "out", other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_THAT(refused.error().message(), HasSubstr("--seed 0, now 7"));
  EXPECT_EQ(contents(fs, "out"), before);
  EXPECT_EQ(Journal::begin(fs, "out", {}, {.seed = 7}).code(), Code::kExists);
  EXPECT_TRUE(pack(fs, "src", "out", small_chunks()));
}

// A chunk without a record may belong to another run.
TEST(ObjectStore, RemovesNoChunksThatNobodyRecorded) {
  io::ObjectStore fs;
  make_source(fs);
  fs.fail_from(7, false);
  ASSERT_FALSE(pack(fs, "src", "out", small_chunks()));
  fs.recover();
  const std::string unknown = chunk_path("out", base::sha256({}));
  put(fs, unknown, base::as_bytes("x"));
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  EXPECT_TRUE(fs.stat(unknown));
}

TEST(ObjectStore, APackDoesNotReplaceAHeadThatAppearedMeanwhile) {
  io::ObjectStore fs;
  make_source(fs);
  fs.fail_from(7, false);
  ASSERT_FALSE(pack(fs, "src", "out", small_chunks()));
  fs.recover();
  const std::string head = encode_head(base::sha256({}));
  put(fs, head_path("out"), base::as_bytes(head));
  for (int run = 0; run < 2; ++run) {
    const auto refused = pack(fs, "src", "out", small_chunks());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kChanged);
    EXPECT_EQ(base::as_text(*fs.read_whole(head_path("out"), 1000)), head);
  }
}

}  // namespace
}  // namespace forebay::store
