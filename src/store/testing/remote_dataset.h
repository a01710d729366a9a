// For tests: a dataset of many samples that comes over a network, which counts what is read.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/mutex.h"
#include "base/random.h"
#include "io/testing/memory.h"
#include "store/dataset.h"
#include "store/testing/dataset_samples.h"

namespace forebay::store {

inline constexpr const char* kFar = "/far";
// Samples of each chunk; rows of 65,536 samples end inside the second and the fourth chunk.
inline constexpr std::array<uint32_t, 5> kChunkSamples = {30'000, 40'000, 20'000, 50'000, 10};

// A remote origin that counts its reads, and fails when the test wants it.
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
  // From here on reads wait until release().
  void hold() {
    may_hold_ = true;
    set_held(true);
  }
  void release() { set_held(false); }
  // Waits until a read is held.
  void wait_for_reader() const {
    base::MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.wait(mutex_);
  }
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
      origin_.pass();
      if (origin_.failures_.exchange(0) > 0)
        return base::fail(base::Code::kUnavailable, "gone for now");
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
  void set_held(bool held) {
    base::MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void pass() const {
    if (!may_hold_) return;
    base::MutexLock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    while (held_) changed_.wait(mutex_);
    --waiting_;
  }

  const io::Origin& below_;
  mutable std::atomic<uint64_t> bytes_ = 0;
  mutable std::atomic<uint64_t> requests_ = 0;
  mutable std::atomic<uint64_t> questions_ = 0;
  mutable std::atomic<int> failures_ = 0;
  mutable std::atomic<int> damages_ = 0;
  std::atomic<bool> may_hold_ = false;
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  bool held_ GUARDED_BY(mutex_) = false;
  mutable int waiting_ GUARDED_BY(mutex_) = 0;
};

// Returns the first bytes of a chunk that has nothing but its index.
inline Chunk indexed_chunk(uint64_t first, uint32_t samples) {
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
  static Status load(const Dataset& dataset, uint32_t chunk, const io::ReadOptions& options) {
    return dataset.load_locations({&chunk, 1}, options);
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

}  // namespace forebay::store
