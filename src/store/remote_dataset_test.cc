// Datasets that come over a network: how little is read of them, what is kept on this machine, and
// that everything is the same as from a local disk.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"
#include "io/memory.h"
#include "store/dataset.h"
#include "store/testing/dataset_samples.h"

namespace forebay::store {
namespace {

using base::Code;

constexpr const char* kFar = "/far";
// Samples of each chunk; rows of 65,536 samples end inside the second and the fourth chunk.
constexpr std::array<uint32_t, 5> kChunkSamples = {30'000, 40'000, 20'000, 50'000, 10};

// Is far away, and counts what it reads. Fails where the test says so.
class CountingOrigin final : public io::Origin {
 public:
  explicit CountingOrigin(const io::Origin& below) : below_(below) {}

  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    if (!options.known) ++questions_;
    ASSIGN_OR_RETURN(auto file, below_.open(path, options));
    return std::make_unique<File>(*this, std::move(file));
  }
  Result<ByteVector> read_whole(const std::string& path, uint64_t limit) const override {
    auto data = below_.read_whole(path, limit);
    count(data ? data->size() : 0);
    return data;
  }
  bool is_remote(const std::string&) const override { return true; }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override {
    ++questions_;
    return below_.stat(path);
  }
  std::string canonical(const std::string& path) const override { return path; }

  void fail_next() { failures_ = 1; }
  void damage_next(int answers) { damages_ = answers; }
  uint64_t bytes() const { return bytes_; }
  uint64_t requests() const { return requests_; }
  uint64_t questions() const { return questions_; }

 private:
  class File final : public io::ReadableFile {
   public:
    File(const CountingOrigin& origin, std::unique_ptr<io::ReadableFile> below)
        : origin_(origin), below_(std::move(below)) {}
    const std::string& path() const override { return below_->path(); }
    const io::Identity& identity() const override { return below_->identity(); }
    Status read(uint64_t offset, base::MutableBytes out,
                const io::ReadOptions& options) const override {
      if (origin_.failures_.exchange(0) > 0) return base::fail(Code::kUnavailable, "gone for now");
      origin_.count(out.size());
      RETURN_IF_ERROR(below_->read(offset, out, options));
      if (origin_.damages_.fetch_sub(1) > 0) out[out.size() / 2] ^= 1;
      return {};
    }

   private:
    const CountingOrigin& origin_;
    const std::unique_ptr<io::ReadableFile> below_;
  };

  void count(uint64_t bytes) const {
    ++requests_;
    bytes_ += bytes;
  }

  const io::Origin& below_;
  mutable std::atomic<uint64_t> bytes_ = 0;
  mutable std::atomic<uint64_t> requests_ = 0;
  mutable std::atomic<uint64_t> questions_ = 0;
  mutable std::atomic<int> failures_ = 0;
  mutable std::atomic<int> damages_ = 0;
};

// The first bytes of a chunk of which nothing but the index is there.
Chunk indexed_chunk(uint64_t first, uint32_t samples) {
  Chunk chunk{.info = {}, .index = {.schema = kSchema, .samples = {}}, .bytes = {}};
  base::Random random(first, base::Purpose::kTest);
  for (uint32_t i = 0; i < samples; ++i) {
    IndexedSample sample{.key = fmt::format("{:07}", first + i), .source_path = {}};
    sample.files.push_back({.field = 0, .suffix = "jpg", .length = 1 + random.below(900)});
    sample.files[0].crc32c = random.next_u32();
    if (random.below(4) > 0) {
      sample.scalars.push_back({.field = 1, .value = int64_t{random.next_u32() % 2}});
    }
    chunk.index.samples.push_back(std::move(sample));
  }
  chunk.info.index_bytes = encode_chunk_index(chunk.index).size();
  chunk.info.samples = samples;
  uint64_t at = tar_member_bytes(kChunkIndexName, chunk.info.index_bytes);
  for (IndexedSample& sample : chunk.index.samples) {
    sample.files[0].offset = at + kTarBlockBytes;
    at += tar_member_bytes(sample.key + ".jpg", sample.files[0].length);
  }
  append_tar_header(std::string(kChunkIndexName), chunk.info.index_bytes, &chunk.bytes);
  base::ByteWriter(&chunk.bytes).bytes(encode_chunk_index(chunk.index));
  chunk.bytes.resize(at + 2 * kTarBlockBytes);
  chunk.info.bytes = chunk.bytes.size();
  chunk.info.id = base::sha256(base::Bytes(chunk.bytes).first(1000));
  return chunk;
}

class RemoteDatasetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs_ = std::make_unique<io::MemoryFileSystem>();
    SnapshotBuilder builder(*fs_, kFar, kSchema);
    uint64_t first = 0;
    for (const uint32_t samples : kChunkSamples) {
      const Chunk chunk = indexed_chunk(first, samples);
      ASSERT_TRUE(builder.add_chunk(chunk.info, chunk.index).ok());
      ASSERT_TRUE(fs_->put(chunk_path(kFar, chunk.info.id), chunk.bytes).ok());
      first += samples;
    }
    ASSERT_TRUE(builder.commit());
    near_ = open_packed(*fs_, kFar).value();
  }
  static void TearDownTestSuite() {
    near_.reset();
    fs_.reset();
  }
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("forebay_far_{}", ::getpid());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<const Dataset> open(const CountingOrigin& origin, bool keeps = false) const {
    std::shared_ptr<const io::KeptFiles> kept;
    if (keeps) kept = std::make_shared<const io::KeptFiles>(io::KeptFiles::Options{folder_});
    return open_packed(origin, kFar, {.kept = kept, .loads_locations = false}).value();
  }
  static Status load(const Dataset& dataset, uint32_t chunk) {
    return dataset.load_locations({&chunk, 1}, {});
  }
  static bool same(const Location& a, const Location& b) {
    return a.chunk == b.chunk && a.length == b.length && a.offset == b.offset &&
           a.crc32c == b.crc32c && a.label == b.label;
  }
  static void expect_same(const Dataset& far, uint32_t chunk) {
    ASSERT_TRUE(far.knows_locations(chunk));
    const ChunkInfo& info = far.chunk(chunk);
    for (uint64_t i = info.first_sample; i < info.first_sample + info.samples; ++i) {
      ASSERT_TRUE(same(far.location(i), near_->location(i))) << i;
    }
  }

  static inline std::unique_ptr<io::MemoryFileSystem> fs_;
  static inline std::shared_ptr<const Dataset> near_;
  std::string folder_;
};

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
  ASSERT_TRUE(far->load_all_locations().ok());
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
  ASSERT_TRUE(far->load_all_locations().ok());
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

TEST_F(RemoteDatasetTest, ThreadsMayAskForAnything) {
  const CountingOrigin origin(*fs_);
  for (uint32_t round = 0; round < 4; ++round) {
    const auto far = open(origin);
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        base::Random random(round, base::Purpose::kTest, thread);
        for (int i = 0; i < 6; ++i) {
          const auto chunk = static_cast<uint32_t>(random.below(far->chunk_count()));
          if (random.below(2) == 0) {
            EXPECT_TRUE(load(*far, chunk).ok());
          } else {
            EXPECT_TRUE(far->read_chunk_index(chunk));
          }
          const uint64_t sample = far->chunk(chunk).first_sample + random.below(10);
          EXPECT_TRUE(same(far->location(sample), near_->location(sample)));
        }
      });
    }
  }
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
