#include "store/in_place.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/limits.h"
#include "store/indexing.h"
#include "store/snapshot.h"

namespace forebay::store {

using base::Code;
using base::fail;
using base::Sha256;

namespace {

// Larger shards are several chunks: what is shuffled together, and in memory at once, is whole
// chunks. As large as those that pack makes.
constexpr uint64_t kPieceBytes = 64'000'000;

class InPlaceDataset final : public Dataset {
 public:
  InPlaceDataset(InPlaceIndex index, bool is_stored, std::string path, SourcePlaces places)
      : path_(std::move(path)),
        places_(std::move(places)),
        is_stored_(is_stored),
        index_(std::move(index)) {
    if (index_.kind == SourceKind::kFolder) {
      add_files();
    } else {
      add_shards();
    }
  }

  const std::string& path() const override { return path_; }
  const Schema& schema() const override { return index_.schema; }
  uint64_t sample_count() const override { return index_.samples.size(); }
  uint32_t chunk_count() const override { return static_cast<uint32_t>(chunks_.size()); }
  const ChunkInfo& chunk(uint32_t number) const override { return chunks_.at(number); }
  std::string chunk_path(uint32_t number) const override {
    if (!shard_of_chunk_.empty()) return places_.shards[shard_of_chunk_.at(number)];
    return io::join_path(places_.folder, index_.path(number));
  }
  std::string chunk_name(uint32_t number) const override {
    if (shard_of_chunk_.empty()) return index_.path(number);
    return index_.shards[shard_of_chunk_.at(number)].path;
  }
  uint32_t chunk_of(uint64_t sample) const override {
    FOREBAY_CHECK(sample < sample_count());
    if (shard_of_chunk_.empty()) return static_cast<uint32_t>(sample);
    return store::chunk_of(chunks_, sample);
  }
  Location location(uint64_t sample) const override {
    const InPlaceSample& found = index_.samples.at(sample);
    return {.chunk = chunk_of(sample),
            .length = found.length,
            .offset = found.offset,
            .crc32c = index_.has_checksums ? std::optional(found.crc32c) : std::nullopt,
            .label = found.label};
  }
  const Sha256& fingerprint() const override { return index_.fingerprint; }

  Result<std::string> key(uint64_t sample) const override {
    return std::string(index_.key(sample));
  }
  Result<std::optional<uint64_t>> find(std::string_view key) const override;
  Result<ChunkIndex> read_chunk_index(uint32_t number) const override {
    return fail(Code::kUnsupported, "{}: data in place has no chunk index; pack it",
                chunk_path(number));
  }

  bool in_place() const override { return true; }
  std::vector<std::string> notes() const override { return index_.notes; }
  Status check_unchanged(const io::FileSystem& fs, const io::RandomFile& file,
                         uint32_t chunk) const override;

 private:
  void add_files();
  void add_shards();
  void add_pieces(uint32_t shard, uint64_t first, uint64_t end);

  const std::string path_;
  const SourcePlaces places_;
  const bool is_stored_;  // the index
  const InPlaceIndex index_;
  std::vector<ChunkInfo> chunks_;
  std::vector<uint32_t> shard_of_chunk_;  // empty for a folder
  mutable std::once_flag sorted_;
  mutable std::vector<uint32_t> by_key_;  // samples, once they are sorted
};

void InPlaceDataset::add_files() {
  chunks_.reserve(index_.samples.size());
  for (uint64_t i = 0; i < index_.samples.size(); ++i) {
    const uint64_t bytes = index_.samples[i].length;
    // One that is too large is never read with its group, and refused when its turn comes.
    chunks_.push_back(
        {.bytes = bytes > base::kImageBytesMax ? 0 : bytes, .first_sample = i, .samples = 1});
  }
}

void InPlaceDataset::add_shards() {
  uint64_t first = 0;
  for (uint32_t i = 0; i < index_.shards.size(); ++i) {
    const uint64_t end = first + index_.shards[i].samples;
    if (end > first) add_pieces(i, first, end);
    first = end;
  }
}

// Cuts a shard with the samples [first, end) into pieces of about equal size. A piece reaches to
// the first image of the next one.
void InPlaceDataset::add_pieces(uint32_t shard, uint64_t first, uint64_t end) {
  const uint64_t shard_bytes = index_.shards[shard].bytes;
  const uint64_t pieces = shard_bytes / kPieceBytes + 1;
  uint64_t begins = 0;
  for (uint64_t piece = 1; first < end; ++piece) {
    // Its share of the shard, and at least a sample.
    const uint64_t border = shard_bytes / pieces * piece;
    uint64_t next = first + 1;
    // One that is too large is by itself, not read with others, and refused when its turn comes.
    const bool is_too_big = index_.samples[first].length > base::kImageBytesMax;
    const auto joins = [&](const InPlaceSample& sample) {
      return !is_too_big && sample.length <= base::kImageBytesMax &&
             (piece >= pieces || sample.offset < border);
    };
    while (next < end && joins(index_.samples[next])) ++next;
    const uint64_t ends = next < end ? index_.samples[next].offset : shard_bytes;
    chunks_.push_back({.bytes = is_too_big ? 0 : ends - begins,
                       .first_sample = first,
                       .samples = static_cast<uint32_t>(next - first),
                       .offset = begins});
    shard_of_chunk_.push_back(shard);
    begins = ends;
    first = next;
  }
}

Result<std::optional<uint64_t>> InPlaceDataset::find(std::string_view key) const {
  std::call_once(sorted_, [&] {
    by_key_.resize(sample_count());
    std::iota(by_key_.begin(), by_key_.end(), 0u);
    std::ranges::sort(by_key_, {}, [&](uint32_t i) { return index_.key(i); });
  });
  const auto found =
      std::ranges::lower_bound(by_key_, key, {}, [&](uint32_t i) { return index_.key(i); });
  if (found == by_key_.end() || index_.key(*found) != key) return std::nullopt;
  return *found;
}

Status InPlaceDataset::check_unchanged(const io::FileSystem& fs, const io::RandomFile& file,
                                       uint32_t chunk) const {
  const auto changed = [&](std::string_view what, const std::string& how) {
    return fail(Code::kCorrupt, "{}: {} since it was {}, {}: {}", file.path(), what,
                is_stored_ ? "indexed" : "listed", how,
                is_stored_ ? fmt::format("run `forebay index {}` again", path_)
                           : std::string("open the data again"));
  };
  const auto sizes = [](uint64_t then, uint64_t now) {
    return fmt::format("from {} bytes to {}", then, now);
  };
  if (shard_of_chunk_.empty()) {
    ASSIGN_OR_RETURN(const uint64_t bytes, file.size());
    const uint64_t listed = chunks_.at(chunk).bytes;
    if (bytes == listed || listed == 0) return {};
    return changed("its size changed", sizes(listed, bytes));
  }
  ASSIGN_OR_RETURN(const io::FileInfo now, fs.stat(file.path()));
  const InPlaceShard& listed = index_.shards[shard_of_chunk_.at(chunk)];
  if (now.size != listed.bytes) return changed("changed", sizes(listed.bytes, now.size));
  if (now.modified_ns != listed.modified_ns) return changed("changed", "it was written to");
  return {};
}

}  // namespace

std::shared_ptr<const Dataset> make_in_place(InPlaceIndex index, bool is_stored, std::string path,
                                             SourcePlaces places) {
  return std::make_shared<InPlaceDataset>(std::move(index), is_stored, std::move(path),
                                          std::move(places));
}

namespace {

Result<std::shared_ptr<const Dataset>> open_in_place(const io::FileSystem& fs,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(SourcePlaces places, find_source(fs, path));
  auto index = read_index(fs, places);
  const bool is_stored = index.has_value();
  if (!is_stored) {
    const Status why = index.error();
    IndexRemarks remarks;  // the notes say enough of them
    ASSIGN_OR_RETURN(index, make_index(fs, places, OnBadShard::kFail, &remarks));
    if (why.code() != Code::kNotFound) {
      index->notes.push_back(fmt::format(
          "{}; so everything was listed, which takes longer: run `forebay index {}` again",
          why.message(), path));
    }
  }
  if (places.has_old_index) {
    index->notes.push_back(fmt::format(
        "its folder {} is the index of an older Forebay; it is not used, and torchvision's "
        "ImageFolder takes it for a class: delete it",
        kOldIndexFolder));
  }
  return make_in_place(std::move(*index), is_stored, path, std::move(places));
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_dataset(const io::FileSystem& fs,
                                                    const std::string& path) {
  const auto head = fs.stat(head_path(path));
  if (head || head.error().code() != Code::kNotFound) return Dataset::open(fs, path);
  return open_in_place(fs, path);
}

}  // namespace forebay::store
