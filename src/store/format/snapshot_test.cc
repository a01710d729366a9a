// Snapshots: what is refused, what counts as damage, and that a commit is atomic.
#include "store/format/snapshot.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "io/testing/faulty.h"
#include "io/testing/memory.h"
#include "io/testing/object_store.h"
#include "store/dataset.h"
#include "store/snapshot_builder.h"
#include "store/snapshot_part.h"
#include "store/testing/dataset_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::HasSubstr;

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

// Whichever operation fails, or whenever the power goes, the old snapshot or the new one is there.
TEST(SnapshotBuilder, CommitIsAtomicWhateverFails) {
  const std::vector<Chunk> chunks = make_chunks();
  for (int64_t at = 0;; ++at) {
    io::MemoryFileSystem fs;
    ASSERT_TRUE(write_dataset(fs, kPath, {chunks[0]}).ok());
    io::FaultyFileSystem faulty(fs, {.on = io::FaultyFileSystem::Fault::On::kWrite, .at = at});
    const Status status = write_dataset(faulty, kPath, chunks);
    fs.power_loss(7);
    const auto dataset = open_packed(fs, kPath);
    ASSERT_TRUE(dataset) << at << ": " << dataset.error().message();
    if (status.ok()) {
      EXPECT_EQ((*dataset)->sample_count(), kSamples);
      break;
    }
    EXPECT_TRUE((*dataset)->sample_count() == 4 || (*dataset)->sample_count() == kSamples);
  }
}

// Two writers begin from the same HEAD: the second one to commit must not undo the first.
TEST(SnapshotBuilder, CommitsOnlyOverTheHeadThatItBeganWith) {
  const std::vector<Chunk> chunks = make_chunks();
  io::ObjectStore fs;
  const auto commit = [&](const Chunk& chunk, const std::optional<io::Identity>& head) {
    SnapshotBuilder builder(fs, kPath, kSchema, head);
    EXPECT_TRUE(fs.put(chunk_path(kPath, chunk.info.id), chunk.bytes).ok());
    EXPECT_TRUE(builder.add_chunk(chunk.info, chunk.index).ok());
    return base::status_of(builder.commit());
  };
  ASSERT_TRUE(commit(chunks[0], {}).ok());
  const auto first = head_identity(fs, kPath);
  ASSERT_TRUE(commit(chunks[1], first).ok());
  for (const auto& head : {first, std::optional<io::Identity>()}) {
    const Status late = commit(chunks[2], head);
    EXPECT_EQ(late.code(), Code::kChanged);
    EXPECT_THAT(late.message(), HasSubstr("HEAD: another process made another snapshot current"));
    // Making the current snapshot current again succeeds.
    EXPECT_TRUE(commit(chunks[1], head).ok());
  }
  EXPECT_EQ((*open_packed(fs, kPath))->chunk(0).id, chunks[1].info.id);
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

// The checksums are right, but no memory may be allocated for these lengths.
TEST(Part, LengthsAboveTheLimitsAreRefused) {
  io::MemoryFileSystem fs;
  ASSERT_TRUE(fs.make_dirs("/d").ok());
  const auto code = [&](uint64_t chunk_bytes, uint64_t length) {
    PartBuilder builder;
    builder.add_chunk({}, chunk_bytes, 100);
    builder.add_sample({.length = static_cast<uint32_t>(length), .crc32c = 0}, "a");
    const auto part = builder.encode();
    EXPECT_TRUE(fs.put("/d/p", part.data).ok());
    return base::status_of(Part::open(fs, "/d/p", part.ref)).code();
  };
  EXPECT_EQ(code(base::kChunkBytesMax, base::kFieldBytesMax), Code::kOk);
  EXPECT_EQ(code(base::kChunkBytesMax + 1, 1), Code::kCorrupt);
  EXPECT_EQ(code(base::kChunkBytesMax, base::kFieldBytesMax + 1), Code::kCorrupt);
}

}  // namespace
}  // namespace forebay::store
