#include "store/in_place.h"

#include <algorithm>
#include <numeric>

#include "base/limits.h"
#include "store/snapshot.h"
#include "store/source.h"

namespace forebay::store {

using base::Code;
using base::fail;
using base::Sha256;

namespace {

// Such a file is listed, never read with its group, and refused when its turn comes.
bool is_too_big(const SourceSample& sample) {
  return sample.files[0].length > base::kImageBytesMax;
}

class FolderDataset final : public Dataset {
 public:
  FolderDataset(Listing listing, std::string path)
      : path_(std::move(path)), listing_(std::move(listing)), by_key_(listing_.samples.size()) {
    base::Sha256Stream fingerprint;
    base::ByteVector line;
    chunks_.reserve(listing_.samples.size());
    for (const SourceSample& sample : listing_.samples) {
      chunks_.push_back({.id = base::sha256(base::as_bytes(sample.source_path)),
                         .bytes = is_too_big(sample) ? 0 : sample.files[0].length,
                         .first_sample = chunks_.size(),
                         .samples = 1});
      line.clear();
      base::ByteWriter writer(&line);
      writer.sized(sample.key);
      writer.number(sample.label);
      writer.number(sample.files[0].length);
      fingerprint.add(line);
    }
    fingerprint_ = fingerprint.finish();
    std::iota(by_key_.begin(), by_key_.end(), 0u);
    std::ranges::sort(by_key_, {}, [&](uint32_t i) -> const std::string& { return key_of(i); });
  }

  const std::string& path() const override { return path_; }
  const Schema& schema() const override { return listing_.schema; }
  uint64_t sample_count() const override { return chunks_.size(); }
  uint32_t chunk_count() const override { return static_cast<uint32_t>(chunks_.size()); }
  const ChunkInfo& chunk(uint32_t number) const override { return chunks_.at(number); }
  std::string chunk_path(uint32_t number) const override {
    return io::join_path(path_, listing_.samples.at(number).source_path);
  }
  uint32_t chunk_of(uint64_t sample) const override { return static_cast<uint32_t>(sample); }
  Location location(uint64_t sample) const override {
    const SourceSample& found = listing_.samples.at(sample);
    return {.chunk = chunk_of(sample),
            .length = is_too_big(found) ? UINT32_MAX : static_cast<uint32_t>(found.files[0].length),
            .offset = 0,
            .crc32c = std::nullopt,
            .label = static_cast<int32_t>(found.label)};
  }
  const Sha256& fingerprint() const override { return fingerprint_; }

  Result<std::string> key(uint64_t sample) const override { return key_of(sample); }
  Result<std::optional<uint64_t>> find(std::string_view key) const override {
    const auto found = std::ranges::lower_bound(
        by_key_, key, {}, [&](uint32_t i) { return std::string_view(key_of(i)); });
    if (found == by_key_.end() || key_of(*found) != key) return std::nullopt;
    return *found;
  }
  Result<ChunkIndex> read_chunk_index(uint32_t number) const override {
    return fail(Code::kUnsupported, "{}: a file of a folder in place has no index; pack the folder",
                chunk_path(number));
  }

 private:
  const std::string& key_of(uint64_t sample) const { return listing_.samples.at(sample).key; }

  const std::string path_;
  const Listing listing_;
  std::vector<ChunkInfo> chunks_;
  std::vector<uint32_t> by_key_;  // samples, sorted
  Sha256 fingerprint_{};
};

Result<std::shared_ptr<const Dataset>> open_in_place(const io::FileSystem& fs,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(Listing listing, list_source(fs, path));
  if (listing.kind != SourceKind::kFolder) {
    return fail(Code::kUnsupported,
                "{}: tar shards cannot be used in place; make a dataset with `forebay pack`", path);
  }
  if (listing.samples.size() > UINT32_MAX) {
    return fail(Code::kTooBig, "{}: {} images, more than {}; pack the folder", path,
                listing.samples.size(), UINT32_MAX);
  }
  return std::make_shared<FolderDataset>(std::move(listing), path);
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_dataset(const io::FileSystem& fs,
                                                    const std::string& path) {
  const auto head = fs.stat(head_path(path));
  if (head || head.error().code() != Code::kNotFound) return Dataset::open(fs, path);
  return open_in_place(fs, path);
}

}  // namespace forebay::store
