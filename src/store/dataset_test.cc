#include "store/dataset.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "base/random.h"
#include "io/testing/memory.h"
#include "store/testing/dataset_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::HasSubstr;

// Calls all functions of the dataset and returns the first error. Values that it returns must be
// right.
Status read_all(const io::Origin& fs) {
  ASSIGN_OR_RETURN(const auto dataset, open_packed(fs, kPath));
  EXPECT_EQ(dataset->sample_count(), kSamples);
  EXPECT_EQ(dataset->schema(), kSchema);
  for (uint64_t i = 0; i < kSamples; ++i) {
    const std::string expected = fmt::format("train/{:05}", i);
    const Location location = dataset->location(i);
    EXPECT_EQ(location.chunk, i < 4 ? 0U : i < 5 ? 1U : 2U);
    EXPECT_EQ(location.chunk, dataset->chunk_of(i));
    EXPECT_EQ(location.label, i % 3 == 2 ? -1 : static_cast<int32_t>(i % 3));
    EXPECT_EQ(location.length, expected.size());
    EXPECT_EQ(location.crc32c, base::crc32c(base::as_bytes(expected)));
    ASSIGN_OR_RETURN(const std::string key, dataset->key(i));
    EXPECT_EQ(key, expected);
    ASSIGN_OR_RETURN(const auto found, dataset->find(expected));
    EXPECT_EQ(found, i);
  }
  ASSIGN_OR_RETURN(const auto none, dataset->find("train/"));
  EXPECT_FALSE(none);
  for (uint32_t i = 0; i < dataset->chunk_count(); ++i) {
    ASSIGN_OR_RETURN(const ChunkIndex index, dataset->read_chunk_index(i));
    const ChunkInfo& info = dataset->chunk(i);
    for (uint32_t j = 0; j < info.samples; ++j) {
      EXPECT_EQ(index.samples.at(j).files.at(0).offset,
                dataset->location(info.first_sample + j).offset);
    }
  }
  return {};
}

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    chunks_ = make_chunks();
    ASSERT_TRUE(write_dataset(fs_, kPath, chunks_).ok());
  }
  std::vector<std::string> files() const {
    std::vector<std::string> paths = {head_path(kPath)};
    for (const std::string folder : {"/chunks", "/snapshots"}) {
      const auto entries = fs_.list(kPath + folder);
      for (const auto& entry : *entries) {
        paths.push_back(kPath + folder + "/" + entry.name);
      }
    }
    return paths;
  }
  std::string file_ending(std::string_view ending) const {
    for (const std::string& path : files()) {
      if (path.ends_with(ending)) return path;
    }
    return {};
  }

  io::MemoryFileSystem fs_;
  std::vector<Chunk> chunks_;
};

TEST_F(DatasetTest, SaysWhatWasWritten) {
  const Status status = read_all(fs_);
  EXPECT_TRUE(status.ok()) << status.message();
  const auto dataset = *open_packed(fs_, kPath);
  EXPECT_EQ(dataset->path(), kPath);
  EXPECT_EQ(dataset->chunk_label(1), chunk_path(kPath, chunks_[1].info.id));
  EXPECT_EQ(dataset->chunk(2).first_sample, 5U);
  EXPECT_EQ(*dataset->read_chunk_index(2), chunks_[2].index);
}

TEST_F(DatasetTest, FingerprintDependsOnContentAlone) {
  ASSERT_TRUE(write_dataset(fs_, "/elsewhere", chunks_).ok());
  const auto fingerprint = [&](const std::string& path) {
    return (*open_packed(fs_, path))->fingerprint();
  };
  EXPECT_EQ(fingerprint(kPath), fingerprint("/elsewhere"));
  std::swap(chunks_[0], chunks_[1]);
  ASSERT_TRUE(write_dataset(fs_, "/swapped", chunks_).ok());
  EXPECT_NE(fingerprint(kPath), fingerprint("/swapped"));
}

TEST_F(DatasetTest, FingerprintDoesNotDependOnTheParts) {
  const auto whole = open_packed(fs_, kPath).value();
  for (const size_t in_part : {1u, 2u}) {
    ASSERT_TRUE(write_in_parts(fs_, kPath, kSchema, chunks_, in_part).ok());
    const auto divided = open_packed(fs_, kPath).value();
    EXPECT_EQ(divided->fingerprint(), whole->fingerprint());
    const Status status = read_all(fs_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  ASSERT_TRUE(write_in_parts(fs_, kPath, kSchema, {chunks_[0], chunks_[1]}, 1).ok());
  EXPECT_NE(open_packed(fs_, kPath).value()->fingerprint(), whole->fingerprint());
}

TEST_F(DatasetTest, NothingThere) {
  const auto missing = open_packed(fs_, "/data");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("forebay pack"));
}

// Expects right answers or a clear error. read_all() fails the test if an answer is wrong.
void expect_noticed(const Status& status, const std::string& path, size_t at) {
  const Code code = status.code();
  EXPECT_TRUE(code == Code::kOk || code == Code::kCorrupt || code == Code::kNotFound ||
              (path.ends_with("HEAD") && code == Code::kUnsupported))
      << path << " at byte " << at << ": " << status.message();
  if (!path.ends_with(".tar") && !path.ends_with(".part")) {
    EXPECT_FALSE(status.ok()) << path << " at byte " << at;
  }
}

TEST_F(DatasetTest, EveryTruncationIsNoticed) {
  for (const std::string& path : files()) {
    ByteVector& content = fs_.content(path);
    const ByteVector whole = content;
    for (size_t length = 0; length < whole.size(); ++length) {
      content.resize(length);
      const Status status = read_all(fs_);
      EXPECT_FALSE(status.ok()) << path << " cut to " << length;
      expect_noticed(status, path, length);
      content = whole;
    }
  }
}

TEST_F(DatasetTest, EveryFlippedByteIsNoticedOrHarmless) {
  base::Random random(1, base::Purpose::kTest);
  for (const std::string& path : files()) {
    ByteVector& content = fs_.content(path);
    for (size_t at = 0; at < content.size(); ++at) {
      const auto flip = static_cast<uint8_t>(1 + random.below(255));
      content[at] ^= flip;
      expect_noticed(read_all(fs_), path, at);
      content[at] ^= flip;
    }
  }
  EXPECT_TRUE(read_all(fs_).ok());
}

TEST_F(DatasetTest, SwappedChunksAreNoticed) {
  std::swap(fs_.content(chunk_path(kPath, chunks_[0].info.id)),
            fs_.content(chunk_path(kPath, chunks_[2].info.id)));
  EXPECT_EQ(read_all(fs_).code(), Code::kCorrupt);
}

TEST_F(DatasetTest, AnotherPartUnderThisNameIsNoticed) {
  const ByteVector before = fs_.content(file_ending(".part"));
  std::vector<Chunk> others = chunks_;
  for (Chunk& chunk : others) chunk.info.id[0] ^= 1;
  SnapshotBuilder builder(fs_, "/other", kSchema);
  for (Chunk& chunk : others) ASSERT_TRUE(builder.add_chunk(chunk.info, chunk.index).ok());
  ASSERT_TRUE(builder.commit());
  const auto entries = fs_.list("/other/snapshots");
  const std::string other =
      "/other/snapshots/" +
      (entries->front().name.ends_with(".part") ? entries->front().name : entries->back().name);
  const ByteVector replacement = fs_.content(other);
  ASSERT_EQ(replacement.size(), before.size());
  fs_.content(file_ending(".part")) = replacement;
  const auto opened = open_packed(fs_, kPath);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kCorrupt);
  EXPECT_THAT(opened.error().message(), HasSubstr("that of another part"));
}

TEST_F(DatasetTest, MissingFilesAreNamed) {
  for (const std::string& path : files()) {
    io::MemoryFileSystem fs;
    ASSERT_TRUE(write_dataset(fs, kPath, chunks_).ok());
    ASSERT_TRUE(fs.remove(path).ok());
    EXPECT_EQ(read_all(fs).code(), Code::kNotFound) << path;
  }
}

TEST_F(DatasetTest, ManyPartsReadAsOne) {
  // The samples have no bytes and are in chunks of half a million, so that a part holds two chunks.
  constexpr uint32_t kCount = 500'000;
  ChunkIndex index{.schema = kSchema, .samples = {}};
  index.samples.resize(kCount);
  SnapshotBuilder builder(fs_, "/many", kSchema);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    for (uint32_t i = 0; i < kCount; ++i) {
      index.samples[i].key = fmt::format("{}/{}", chunk, i);
      index.samples[i].files = {{.field = 0, .suffix = "jpg", .offset = i, .length = chunk}};
    }
    const ChunkInfo info{.id = base::sha256(Bytes(reinterpret_cast<const uint8_t*>(&chunk), 4)),
                         .bytes = base::kChunkBytesMax,
                         .samples = kCount,
                         .index_bytes = 7};
    ASSERT_TRUE(builder.add_chunk(info, index).ok());
  }
  ASSERT_TRUE(builder.commit());
  const auto dataset = *open_packed(fs_, "/many");
  EXPECT_EQ(dataset->sample_count(), 3U * kCount);
  EXPECT_EQ(dataset->chunk_count(), 3U);
  EXPECT_EQ(fs_.list("/many/snapshots")->size(), 3U);
  EXPECT_EQ(*dataset->key(1'000'007), "2/7");
  EXPECT_EQ(*dataset->key(999'999), "1/499999");
  EXPECT_EQ(*dataset->find("2/499999"), 1'499'999U);
  EXPECT_EQ(dataset->location(1'000'007).offset, 7U);
  EXPECT_EQ(dataset->location(1'000'007).length, 2U);
  EXPECT_EQ(dataset->chunk_of(999'999), 1U);
}

TEST_F(DatasetTest, KeysOfAChunkAreThoseOfItsSamples) {
  const auto dataset = *open_packed(fs_, kPath);
  for (uint32_t chunk = 0; chunk < dataset->chunk_count(); ++chunk) {
    const auto keys = dataset->chunk_keys(chunk);
    ASSERT_TRUE(keys);
    EXPECT_EQ(*keys, *dataset->Dataset::chunk_keys(chunk)) << "one by one";
    ASSERT_EQ(keys->size(), kCounts[chunk]);
    EXPECT_EQ(keys->front(), fmt::format("train/{:05}", dataset->chunk(chunk).first_sample));
  }
}

TEST_F(DatasetTest, EmptyDataset) {
  SnapshotBuilder builder(fs_, "/empty", kSchema);
  ASSERT_TRUE(builder.commit());
  const auto dataset = *open_packed(fs_, "/empty");
  EXPECT_EQ(dataset->sample_count(), 0U);
  EXPECT_EQ(*dataset->find("a"), std::nullopt);
}

}  // namespace
}  // namespace forebay::store
