// Datasets that come over a network: how little is read, which bytes are kept on this machine, and
// that all answers are the same as for a local disk.
#include "store/testing/remote_dataset.h"

#include <fstream>

namespace forebay::store {
namespace {

using base::Code;

TEST_F(RemoteDatasetTest, OpeningReadsNothingOfTheSamples) {
  const CountingOrigin origin(*fs_);
  const auto far = open(origin);
  EXPECT_EQ(origin.requests(), 3u);  // HEAD, the root, and the part's first bytes
  EXPECT_EQ(origin.questions(), 0u);
  EXPECT_LT(origin.bytes(), 3'000u);
  EXPECT_EQ(far->sample_count(), near_->sample_count());
  EXPECT_EQ(far->fingerprint(), near_->fingerprint());
  for (uint32_t chunk = 0; chunk < far->chunk_count(); ++chunk) {
    EXPECT_FALSE(far->knows_locations(chunk));
    EXPECT_EQ(far->chunk(chunk).id, near_->chunk(chunk).id);
  }
}

TEST_F(RemoteDatasetTest, RowsComeWhenTheyAreNeeded) {
  const CountingOrigin origin(*fs_);
  const auto far = open(origin);
  const uint64_t opened = origin.bytes();
  ASSERT_TRUE(load(*far, 0).ok());
  EXPECT_EQ(origin.bytes() - opened, 16u * 65'536);
  expect_same(*far, 0);
  EXPECT_FALSE(far->knows_locations(1));  // only its first samples are in the row
  ASSERT_TRUE(load(*far, 0).ok());
  EXPECT_EQ(origin.bytes() - opened, 16u * 65'536);
  ASSERT_TRUE(load(*far, 1).ok());
  EXPECT_EQ(origin.bytes() - opened, 2 * 16u * 65'536);
  expect_same(*far, 1);
  expect_same(*far, 2);
  ASSERT_TRUE(far->load_all_locations({}).ok());
  EXPECT_EQ(origin.bytes() - opened, 16 * far->sample_count());
  for (uint32_t chunk = 0; chunk < far->chunk_count(); ++chunk) expect_same(*far, chunk);
}

TEST_F(RemoteDatasetTest, AnIndexSaysWhereItsSamplesLie) {
  const CountingOrigin origin(*fs_);
  const auto far = open(origin);
  ASSERT_TRUE(far->read_chunk_index(1));
  const uint64_t read = origin.bytes();
  expect_same(*far, 1);
  ASSERT_TRUE(load(*far, 1).ok());
  EXPECT_EQ(origin.bytes(), read);
  // Rows that come later do not disturb it.
  ASSERT_TRUE(load(*far, 0).ok());
  for (uint32_t chunk = 0; chunk < 2; ++chunk) expect_same(*far, chunk);
  ASSERT_TRUE(far->load_all_locations({}).ok());
  for (uint32_t chunk = 0; chunk < far->chunk_count(); ++chunk) expect_same(*far, chunk);
}

TEST_F(RemoteDatasetTest, WhoeverDoesNotAskForLessGetsAllLocations) {
  const CountingOrigin origin(*fs_);
  const auto far = open_packed(origin, kFar).value();
  for (uint32_t chunk = 0; chunk < far->chunk_count(); ++chunk) expect_same(*far, chunk);
}

TEST_F(RemoteDatasetTest, AFailedReadCanBeTriedAgain) {
  CountingOrigin origin(*fs_);
  const auto far = open(origin);
  origin.fail_next();
  EXPECT_EQ(load(*far, 1).code(), Code::kUnavailable);
  EXPECT_FALSE(far->knows_locations(1));
  // Each reading of the two rows has eight ranges.
  origin.damage_next(16);
  const Status damaged = load(*far, 1);
  EXPECT_EQ(damaged.code(), Code::kCorrupt);
  EXPECT_NE(damaged.message().find(".part: damaged in the"), std::string::npos)
      << damaged.message();
  EXPECT_FALSE(far->knows_locations(1));
  origin.damage_next(1);  // on its way
  ASSERT_TRUE(load(*far, 1).ok());
  expect_same(*far, 1);
}

// A bug once: a single damaged transfer counted as damage of the dataset.
TEST_F(RemoteDatasetTest, DamageOnTheWayIsReadASecondTime) {
  CountingOrigin origin(*fs_);
  origin.damage_next(1);  // the part's first bytes
  const auto far = open(origin);
  origin.damage_next(1);
  EXPECT_EQ(far->read_chunk_index(1).value(), near_->read_chunk_index(1).value());
  for (int reads = 1; reads <= 2; ++reads) {
    origin.damage_next(1);
    EXPECT_EQ(far->key(70'000).value(), near_->key(70'000).value());
  }
  origin.damage_next(2);
  EXPECT_EQ(far->read_chunk_index(2).error().code(), Code::kCorrupt);
}

TEST_F(RemoteDatasetTest, TheNextProcessReadsOnlyHead) {
  const CountingOrigin origin(*fs_);
  const auto use = [&] {
    const auto far = open(origin, true);
    EXPECT_EQ(far->read_chunk_index(1).value(), near_->read_chunk_index(1).value());
    expect_same(*far, 1);
    ASSERT_TRUE(load(*far, 3).ok());
    expect_same(*far, 3);
    EXPECT_TRUE(far->notes().empty());
  };
  use();
  const uint64_t first = origin.bytes();
  use();
  EXPECT_EQ(origin.bytes() - first, 75u);  // HEAD
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().extension(), ".kept");
  }
}

// Each kept file is damaged, cut off, or replaced by another that is whole.
TEST_F(RemoteDatasetTest, DamageInTheFolderCostsOnlyTime) {
  const CountingOrigin origin(*fs_);
  const auto use = [&] {
    const auto far = open(origin, true);
    EXPECT_EQ(far->fingerprint(), near_->fingerprint());
    EXPECT_EQ(far->read_chunk_index(4).value(), near_->read_chunk_index(4).value());
    ASSERT_TRUE(load(*far, 0).ok());
    expect_same(*far, 0);
    expect_same(*far, 4);
  };
  use();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files.push_back(entry);
  EXPECT_GE(files.size(), 4u);  // a root, a part's head, a row, an index
  const io::KeptFiles kept({.folder = folder_});
  for (const auto& file : files) {
    const uint64_t begin = origin.bytes();
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    use();
    EXPECT_GT(origin.bytes() - begin, 75u) << file;
    std::ofstream(file, std::ios::binary | std::ios::trunc) << "a foreign file";
    use();
    // Its checksum is right, its content is not.
    kept.put(file.stem().string(), base::as_bytes("nothing that makes sense"));
    use();
    const uint64_t end = origin.bytes();
    use();
    EXPECT_EQ(origin.bytes() - end, 75u) << file;
  }
}

TEST_F(RemoteDatasetTest, AFolderThatCannotBeUsedIsNamed) {
  const CountingOrigin origin(*fs_);
  std::ofstream(std::filesystem::path(folder_)) << "no folder";
  const auto far = open(origin, true);
  ASSERT_EQ(far->notes().size(), 1u);
  EXPECT_NE(far->notes()[0].find(folder_), std::string::npos) << far->notes()[0];
  EXPECT_NE(far->notes()[0].find("FOREBAY_INDEX_CACHE"), std::string::npos);
  ASSERT_TRUE(load(*far, 0).ok());
  expect_same(*far, 0);
}

TEST_F(RemoteDatasetTest, LocalDataIsNotKept) {
  const auto kept = std::make_shared<const io::KeptFiles>(io::KeptFiles::Options{folder_});
  const auto near = open_packed(*fs_, kFar, {.kept = kept, .loads_locations = false}).value();
  EXPECT_TRUE(near->read_chunk_index(0));
  for (uint32_t chunk = 0; chunk < near->chunk_count(); ++chunk) expect_same(*near, chunk);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace forebay::store
