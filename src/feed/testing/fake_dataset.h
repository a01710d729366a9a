// A dataset in memory for the feed's tests: small PNG images made by a formula, in chunk files
// whose slots have a fixed size, so that the order does not depend on how well an encoder
// compresses.
#pragma once

#include "io/testing/memory.h"
#include "store/dataset.h"

namespace forebay::feed {

class FakeDataset final : public store::Dataset {
 public:
  static constexpr uint32_t kSlotBytes = 2048;

  // Writes chunks with these numbers of samples to `fs`.
  FakeDataset(io::MemoryFileSystem& fs, const std::vector<uint32_t>& chunk_samples);

  const std::string& path() const override { return path_; }
  const store::Schema& schema() const override { return schema_; }
  uint64_t sample_count() const override { return locations_.size(); }
  uint32_t chunk_count() const override { return static_cast<uint32_t>(chunks_.size()); }
  const store::ChunkInfo& chunk(uint32_t number) const override { return chunks_[number]; }
  std::string chunk_label(uint32_t number) const override;
  base::Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                             store::Caching caching) const override;
  store::ChunkOrigin origin(uint32_t) const override { return {*origin_, path_}; }
  uint32_t chunk_of(uint64_t sample) const override { return locations_[sample].chunk; }
  store::Location location(uint64_t sample) const override { return locations_[sample]; }
  const base::Sha256& fingerprint() const override { return fingerprint_; }
  using Dataset::key;
  base::Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const override;
  base::Result<std::optional<uint64_t>> find(std::string_view key) const override;
  base::Result<store::ChunkIndex> read_chunk_index(uint32_t chunk,
                                                   const io::ReadOptions& options) const override;

  // The same dataset with its chunks read through `origin`.
  std::shared_ptr<FakeDataset> through(const io::Origin& origin) const;

  // The sample's bytes as they are stored now.
  base::Bytes file(uint64_t sample) const;
  // Changes a stored byte, so that the checksum does not match.
  void damage(uint64_t sample);
  // Stores bytes that are no image, with a matching checksum.
  void make_undecodable(uint64_t sample);

 private:
  io::MemoryFileSystem& fs_;
  const io::Origin* origin_ = &fs_;
  std::string path_ = "/data";
  store::Schema schema_;
  base::Sha256 fingerprint_{};
  std::vector<store::ChunkInfo> chunks_;
  std::vector<store::Location> locations_;
};

}  // namespace forebay::feed
