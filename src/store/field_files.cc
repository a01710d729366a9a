#include "store/field_files.h"

#include <algorithm>
#include <utility>

#include "base/mutex.h"

namespace forebay::store {
namespace {

using base::MutexLock;

class FieldFiles final : public Dataset {
 public:
  FieldFiles(std::shared_ptr<const Dataset> base, std::string field)
      : base_(std::move(base)),
        schema_{.fields = {{std::move(field), FieldKind::kImage}},
                .classes = base_->schema().classes},
        files_(base_->chunk_count()) {}

  const std::string& path() const override { return base_->path(); }
  const Schema& schema() const override { return schema_; }
  uint64_t sample_count() const override { return base_->sample_count(); }
  uint32_t chunk_count() const override { return base_->chunk_count(); }
  const ChunkInfo& chunk(uint32_t number) const override { return base_->chunk(number); }
  std::string chunk_label(uint32_t number) const override { return base_->chunk_label(number); }
  Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                       Caching caching) const override {
    return base_->open_chunk(number, caching);
  }
  ChunkOrigin origin(uint32_t number) const override { return base_->origin(number); }
  std::string chunk_name(uint32_t number) const override { return base_->chunk_name(number); }
  uint32_t chunk_of(uint64_t sample) const override { return base_->chunk_of(sample); }
  const io::KeptFiles* kept(uint32_t number) const override { return base_->kept(number); }
  const base::Sha256& fingerprint() const override { return base_->fingerprint(); }
  Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const override {
    return base_->key(sample, options);
  }
  Result<std::optional<uint64_t>> find(std::string_view key) const override {
    return base_->find(key);
  }
  Result<ChunkIndex> read_chunk_index(uint32_t number,
                                      const io::ReadOptions& options) const override {
    return base_->read_chunk_index(number, options);
  }

  Location location(uint64_t sample) const override;
  bool knows_locations(uint32_t number) const override;
  Status load_locations(std::span<const uint32_t> chunks,
                        const io::ReadOptions& options) const override;
  Status load_all_locations(const io::ReadOptions& options) const override;

 private:
  const std::shared_ptr<const Dataset> base_;
  const Schema schema_;
  mutable base::Mutex mutex_;
  // The locations of each chunk's files; empty until the chunk's index has been read.
  mutable std::vector<std::vector<Location>> files_ GUARDED_BY(mutex_);
};

Location FieldFiles::location(uint64_t sample) const {
  const uint32_t number = chunk_of(sample);
  MutexLock lock(mutex_);
  return files_.at(number).at(sample - chunk(number).first_sample);
}

bool FieldFiles::knows_locations(uint32_t number) const {
  MutexLock lock(mutex_);
  return !files_.at(number).empty();
}

// No lock is held while an index is read. So two threads may read the same index, but none waits
// for the other's read of a different chunk.
Status FieldFiles::load_locations(std::span<const uint32_t> chunks,
                                  const io::ReadOptions& options) const {
  const std::string& name = schema_.fields[0].name;
  for (const uint32_t number : chunks) {
    if (knows_locations(number)) continue;
    ASSIGN_OR_RETURN(const ChunkIndex index, base_->read_chunk_index(number, options));
    std::vector<Location> files;
    for (const IndexedSample& sample : index.samples) {
      const auto file = std::ranges::find_if(sample.files, [&](const StoredFile& stored) {
        return index.schema.fields[stored.field].name == name;
      });
      if (file == sample.files.end()) {
        files.push_back({.chunk = number});
        continue;
      }
      files.push_back({.chunk = number,
                       .length = static_cast<uint32_t>(file->length),
                       .offset = file->offset,
                       .crc32c = file->crc32c});
    }
    MutexLock lock(mutex_);
    files_[number] = std::move(files);
  }
  return {};
}

Status FieldFiles::load_all_locations(const io::ReadOptions& options) const {
  std::vector<uint32_t> all;
  for (uint32_t number = 0; number < chunk_count(); ++number) all.push_back(number);
  return load_locations(all, options);
}

}  // namespace

std::shared_ptr<const Dataset> field_files(std::shared_ptr<const Dataset> base, std::string field) {
  return std::make_shared<FieldFiles>(std::move(base), std::move(field));
}

}  // namespace forebay::store
