#include "store/dataset.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "base/random.h"
#include "io/faulty.h"
#include "io/memory.h"
#include "jpeg/jpeg_samples.h"
#include "jpeg/rewrite.h"
#include "store/snapshot.h"
#include "store/snapshot_part.h"
#include "store/tar.h"
#include "store/verify.h"

namespace forebay::store {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::HasSubstr;

const Schema kSchema{.fields = {{"jpg", FieldKind::kImage}, {"cls", FieldKind::kClass}},
                     .classes = {"cat", "dog"}};

struct Chunk {
  ChunkInfo info;
  ChunkIndex index;
  ByteVector bytes;
};

// Lays out a chunk of samples with one file each, whose contents are `images`.
Chunk lay_out(ChunkIndex samples, const std::vector<ByteVector>& images) {
  Chunk chunk{.info = {}, .index = std::move(samples), .bytes = {}};
  for (size_t i = 0; i < images.size(); ++i) {
    StoredFile& file = chunk.index.samples[i].files[0];
    file.length = images[i].size();
    file.crc32c = base::crc32c(images[i]);
  }
  chunk.info.index_bytes = encode_chunk_index(chunk.index).size();
  chunk.info.samples = static_cast<uint32_t>(images.size());
  uint64_t at = tar_member_bytes(kChunkIndexName, chunk.info.index_bytes);
  for (auto& sample : chunk.index.samples) {
    sample.files[0].offset = at + kTarBlockBytes;
    at += tar_member_bytes(sample.key + ".jpg", sample.files[0].length);
  }
  const auto append = [&](const std::string& name, Bytes data) {
    append_tar_header(name, data.size(), &chunk.bytes);
    base::ByteWriter(&chunk.bytes).bytes(data);
    append_tar_padding(data.size(), &chunk.bytes);
  };
  append(std::string(kChunkIndexName), encode_chunk_index(chunk.index));
  for (size_t i = 0; i < images.size(); ++i) {
    append(chunk.index.samples[i].key + ".jpg", images[i]);
  }
  append_tar_end(&chunk.bytes);
  chunk.info.bytes = chunk.bytes.size();
  chunk.info.id = base::sha256(chunk.bytes);
  return chunk;
}

// A chunk of `count` samples that are numbered from `first`; each image is its key.
Chunk make_chunk(uint64_t first, uint32_t count, const Schema& schema = kSchema) {
  ChunkIndex index{.schema = schema, .samples = {}};
  std::vector<ByteVector> images;
  for (uint32_t i = 0; i < count; ++i) {
    IndexedSample sample{.key = fmt::format("train/{:05}", first + i), .source_path = {}};
    sample.source_path = sample.key + ".JPEG";
    sample.files.push_back({.field = 0, .suffix = "jpg"});
    images.emplace_back(sample.key.begin(), sample.key.end());
    if ((first + i) % 3 != 2) {
      ScalarValue label;
      label.field = 1;
      label.value = static_cast<int64_t>((first + i) % 3);
      sample.scalars.push_back(label);
    }
    index.samples.push_back(sample);
  }
  return lay_out(std::move(index), images);
}

constexpr std::array<uint32_t, 3> kCounts = {4, 1, 5};
constexpr uint64_t kSamples = 10;
const std::string kPath = "/data/set";

// Ten samples in three chunks.
std::vector<Chunk> make_chunks() {
  std::vector<Chunk> chunks;
  uint64_t first = 0;
  for (const uint32_t count : kCounts) {
    chunks.push_back(make_chunk(first, count));
    first += count;
  }
  return chunks;
}

Status write_dataset(io::FileSystem& fs, const std::string& path,
                     const std::vector<Chunk>& chunks) {
  RETURN_IF_ERROR(fs.make_dirs(path + "/chunks"));
  SnapshotBuilder builder(fs, path, kSchema);
  for (const Chunk& chunk : chunks) {
    RETURN_IF_ERROR(io::write_file_atomically(fs, chunk_path(path, chunk.info.id), chunk.bytes));
    RETURN_IF_ERROR(builder.add_chunk(chunk.info, chunk.index));
  }
  return base::status_of(builder.commit());
}

// Everything that the dataset says, or its first error; what it says must be right.
Status read_all(const io::FileSystem& fs) {
  ASSIGN_OR_RETURN(const auto dataset, Dataset::open(fs, kPath));
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
  const auto dataset = *Dataset::open(fs_, kPath);
  EXPECT_EQ(dataset->path(), kPath);
  EXPECT_EQ(dataset->chunk_path(1), chunk_path(kPath, chunks_[1].info.id));
  EXPECT_EQ(dataset->chunk(2).first_sample, 5U);
  EXPECT_EQ(*dataset->read_chunk_index(2), chunks_[2].index);
}

TEST_F(DatasetTest, FingerprintDependsOnContentAlone) {
  ASSERT_TRUE(write_dataset(fs_, "/elsewhere", chunks_).ok());
  const auto fingerprint = [&](const std::string& path) {
    return (*Dataset::open(fs_, path))->fingerprint();
  };
  EXPECT_EQ(fingerprint(kPath), fingerprint("/elsewhere"));
  std::swap(chunks_[0], chunks_[1]);
  ASSERT_TRUE(write_dataset(fs_, "/swapped", chunks_).ok());
  EXPECT_NE(fingerprint(kPath), fingerprint("/swapped"));
}

TEST_F(DatasetTest, NothingThere) {
  const auto missing = Dataset::open(fs_, "/data");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("forebay pack"));
}

// Right answers or a clear error: read_all() fails the test when an answer is wrong.
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
  const auto opened = Dataset::open(fs_, kPath);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kCorrupt);
  EXPECT_THAT(opened.error().message(), HasSubstr("another part's"));
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
  // Samples without bytes in chunks of half a million, so that each part holds two.
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
  const auto dataset = *Dataset::open(fs_, "/many");
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
  const auto dataset = *Dataset::open(fs_, kPath);
  for (uint32_t chunk = 0; chunk < dataset->chunk_count(); ++chunk) {
    const auto keys = dataset->chunk_keys(chunk);
    ASSERT_TRUE(keys);
    EXPECT_EQ(*keys, *dataset->Dataset::chunk_keys(chunk)) << "one by one";
    ASSERT_EQ(keys->size(), kCounts[chunk]);
    EXPECT_EQ(keys->front(), fmt::format("train/{:05}", dataset->chunk(chunk).first_sample));
  }
}

std::vector<std::string> damages(const io::FileSystem& fs, bool pixels = false) {
  const auto report = verify(fs, kPath, {.pixels = pixels, .threads = 2, .progress = {}});
  if (!report) return {report.error().message()};
  std::vector<std::string> out;
  for (const Damage& damage : report->damages) out.push_back(describe(damage));
  return out;
}

// A bug once: only the keys inside a chunk were compared.
TEST(Verify, AKeyThatIsInTwoChunksIsDamage) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(write_dataset(fs, kPath, {make_chunk(0, 3), make_chunk(3, 2)}).ok());
  EXPECT_THAT(damages(fs), ::testing::IsEmpty());
  ASSERT_TRUE(write_dataset(fs, kPath, {make_chunk(0, 3), make_chunk(2, 2)}).ok());
  const auto found = damages(fs);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr("sample \"train/00002\": (chunk 1) chunk 0 has this key too"));
}

// A bug once: with every checksum right and a segment too few, `verify --pixels` ended the process.
TEST(Verify, AnIndexWithTooFewSegmentsIsDamage) {
  auto image = jpeg::rewrite(jpeg::make_jpeg({.width = 100, .height = 100}));
  ASSERT_TRUE(image);
  auto& segments = image->index.segments;
  while (segments.size() > 2) {
    const jpeg::Segment last = segments.back();
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
  const auto found = damages(fs, true);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], HasSubstr("number of segments than the index"));
  EXPECT_THAT(found[1], HasSubstr("its middle, decoded by itself, fails"));
}

// Behind right checksums: lengths that nobody should allocate for.
TEST(Part, LengthsAboveTheLimitsAreRefused) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_dirs("/d").ok());
  const auto code = [&](uint64_t chunk_bytes, uint64_t length) {
    PartBuilder builder;
    builder.add_chunk({}, chunk_bytes, 100);
    builder.add_sample({.length = static_cast<uint32_t>(length)}, "a");
    const auto part = builder.encode();
    EXPECT_TRUE(io::write_file_atomically(fs, "/d/p", part.data).ok());
    return base::status_of(Part::open(fs, "/d/p", part.ref)).code();
  };
  EXPECT_EQ(code(base::kChunkBytesMax, base::kFieldBytesMax), Code::kOk);
  EXPECT_EQ(code(base::kChunkBytesMax + 1, 1), Code::kCorrupt);
  EXPECT_EQ(code(base::kChunkBytesMax, base::kFieldBytesMax + 1), Code::kCorrupt);
}

TEST_F(DatasetTest, EmptyDataset) {
  SnapshotBuilder builder(fs_, "/empty", kSchema);
  ASSERT_TRUE(builder.commit());
  const auto dataset = *Dataset::open(fs_, "/empty");
  EXPECT_EQ(dataset->sample_count(), 0U);
  EXPECT_EQ(*dataset->find("a"), std::nullopt);
}

TEST(SnapshotBuilder, RefusesWhatDoesNotFit) {
  io::MemoryFileSystem fs;
  const auto refused = [&](auto change) {
    Chunk chunk = make_chunk(0, 2);
    change(chunk);
    SnapshotBuilder builder(fs, "/d", kSchema);
    return builder.add_chunk(chunk.info, chunk.index).message();
  };
  EXPECT_EQ(refused([](Chunk&) {}), "");
  EXPECT_THAT(refused([](Chunk& c) { c.info.samples = 3; }), HasSubstr("3 samples, 2 in"));
  EXPECT_THAT(refused([](Chunk& c) { c.index.samples[0].files.clear(); }), HasSubstr("no image"));
  EXPECT_THAT(refused([](Chunk& c) { c.info.bytes = 100; }), HasSubstr("no image inside"));
  EXPECT_THAT(refused([](Chunk& c) { c.info.bytes = base::kChunkBytesMax + 1; }),
              HasSubstr("bytes, more than"));
  EXPECT_THAT(refused([](Chunk& c) { c.index.samples[0].key.clear(); }), HasSubstr("key of 0"));
  EXPECT_THAT(refused([](Chunk& c) { c.index.schema.classes.clear(); }), HasSubstr("schema"));
  EXPECT_THAT(refused([](Chunk& c) { c.index.samples[0].scalars[0].value = int64_t{-1}; }),
              HasSubstr("class of sample"));
}

// Whatever operation fails, or wherever the power goes: the old snapshot or the new one.
TEST(SnapshotBuilder, CommitIsAtomicWhateverFails) {
  const std::vector<Chunk> chunks = make_chunks();
  for (int64_t at = 0;; ++at) {
    io::MemoryFileSystem fs;
    ASSERT_TRUE(write_dataset(fs, kPath, {chunks[0]}).ok());
    io::FaultyFileSystem faulty(fs, {.on = io::FaultyFileSystem::Fault::On::kWrite, .at = at});
    const Status status = write_dataset(faulty, kPath, chunks);
    fs.power_loss(7);
    const auto dataset = Dataset::open(fs, kPath);
    ASSERT_TRUE(dataset) << at << ": " << dataset.error().message();
    if (status.ok()) {
      EXPECT_EQ((*dataset)->sample_count(), kSamples);
      break;
    }
    EXPECT_TRUE((*dataset)->sample_count() == 4 || (*dataset)->sample_count() == kSamples);
  }
}

TEST(SnapshotRoot, RoundTripAndDamage) {
  SnapshotRoot root{.schema = kSchema, .parts = {}};
  for (uint32_t i = 0; i < 3; ++i) {
    root.parts.push_back({.id = base::sha256(Bytes(reinterpret_cast<const uint8_t*>(&i), 4)),
                          .header = {},
                          .header_bytes = 500 + i,
                          .chunks = i,
                          .samples = 100 * i,
                          .bytes = 10'000});
  }
  const ByteVector data = encode_root(root);
  EXPECT_EQ(*decode_root(data), root);
  for (size_t at = 0; at < data.size(); ++at) {
    EXPECT_FALSE(decode_root(Bytes(data).first(at))) << at;
    ByteVector bad = data;
    bad[at] ^= 0x10;
    EXPECT_EQ(base::status_of(decode_root(bad)).code(), Code::kCorrupt) << at;
  }
}

}  // namespace
}  // namespace forebay::store
