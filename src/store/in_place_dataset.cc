#include "store/in_place_dataset.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/limits.h"
#include "store/format/snapshot.h"
#include "store/source/file_list.h"
#include "store/source/index_file.h"

namespace forebay::store {

using base::Code;
using base::fail;
using base::Sha256;

namespace {

// A larger shard is divided into several chunks, because a chunk is in memory as a whole, and its
// samples are shuffled together. The pieces are as large as the chunks that pack makes.
constexpr uint64_t kPieceBytes = 64'000'000;

class InPlaceDataset final : public Dataset {
 public:
  InPlaceDataset(const io::Origin& origin, InPlaceIndex index, bool is_stored, std::string path,
                 ResolvedSource places)
      : origin_(origin),
        path_(std::move(path)),
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
  std::string chunk_label(uint32_t number) const override {
    if (!shard_of_chunk_.empty()) return places_.shards[shard_of_chunk_.at(number)];
    return io::join_path(places_.folder, index_.path(number));
  }
  Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                       Caching caching) const override {
    ASSIGN_OR_RETURN(auto file,
                     origin_.open(chunk_label(number), open_options(caching, listed(number))));
    RETURN_IF_ERROR(check_unchanged(*file, number));
    return file;
  }
  ChunkOrigin origin(uint32_t) const override { return {origin_, path_}; }
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

  using Dataset::key;
  Result<std::string> key(uint64_t sample, const io::ReadOptions&) const override {
    return std::string(index_.key(sample));
  }
  std::string source_path(uint64_t sample) const override { return index_.path(sample); }
  Result<std::optional<uint64_t>> find(std::string_view key) const override;
  Result<ChunkIndex> read_chunk_index(uint32_t number, const io::ReadOptions&) const override {
    return fail(Code::kUnsupported, "{}: data in place has no chunk index; pack it",
                chunk_label(number));
  }

  bool in_place() const override { return true; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = index_.notes;
    const auto is_missing = [](const InPlaceSample& sample) { return sample.label < 0; };
    const auto first = std::ranges::find_if(index_.samples, is_missing);
    if (first == index_.samples.end()) return notes;
    const auto without = std::count_if(first, index_.samples.end(), is_missing);
    std::string note =
        note_of_missing_classes(static_cast<uint64_t>(without), index_.samples.size(),
                                index_.key(static_cast<uint64_t>(first - index_.samples.begin())));
    if (!note.empty()) notes.insert(notes.begin(), std::move(note));
    return notes;
  }

 private:
  std::optional<io::Identity> listed(uint32_t chunk) const;
  Status check_unchanged(const io::ReadableFile& file, uint32_t chunk) const;
  void add_files();
  void add_shards();
  void add_pieces(uint32_t shard, uint64_t first, uint64_t end);

  const io::Origin& origin_;
  const std::string path_;
  const ResolvedSource places_;
  const bool is_stored_;  // whether the index was stored by `forebay index`
  const InPlaceIndex index_;
  std::vector<ChunkInfo> chunks_;
  std::vector<uint32_t> shard_of_chunk_;  // empty for a folder
  mutable std::once_flag sorted_;
  mutable std::vector<uint32_t> by_key_;  // samples in the order of their keys, once sorted
};

void InPlaceDataset::add_files() {
  chunks_.reserve(index_.samples.size());
  for (uint64_t i = 0; i < index_.samples.size(); ++i) {
    const uint64_t bytes = index_.samples[i].length;
    // A chunk of 0 bytes keeps an image that is too large from being read with its group. The image
    // is refused later, when its sample is wanted.
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

// Cuts a shard with the samples [first, end) into pieces of about equal size. Each piece ends where
// the first image of the next piece begins.
void InPlaceDataset::add_pieces(uint32_t shard, uint64_t first, uint64_t end) {
  const uint64_t shard_bytes = index_.shards[shard].bytes;
  const uint64_t pieces = shard_bytes / kPieceBytes + 1;
  uint64_t begins = 0;
  for (uint64_t piece = 1; first < end; ++piece) {
    // Each piece has at least one sample.
    const uint64_t border = shard_bytes / pieces * piece;
    uint64_t next = first + 1;
    // An image that is too large gets a chunk of its own, which is never read as a whole. The image
    // is refused later, when its sample is wanted.
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

// Returns what was listed of the chunk's file. Nothing for a folder's image that is too large,
// because its chunk does not keep the size.
std::optional<io::Identity> InPlaceDataset::listed(uint32_t chunk) const {
  if (shard_of_chunk_.empty()) {
    const uint64_t bytes = chunks_.at(chunk).bytes;
    return bytes == 0 ? std::nullopt : std::optional(io::Identity{.size = bytes});
  }
  const InPlaceShard& shard = index_.shards[shard_of_chunk_.at(chunk)];
  // A server that does not say when the file was changed could give other bytes of the same length
  // later. A cache keeps only files that are known, so such a file is asked for again.
  if (shard.modified_ns == 0 && origin_.is_remote(path_)) return std::nullopt;
  return io::Identity{.size = shard.bytes, .modified_ns = shard.modified_ns};
}

Status InPlaceDataset::check_unchanged(const io::ReadableFile& file, uint32_t chunk) const {
  const io::Identity& now = file.identity();
  const auto changed = [&](std::string_view what, const std::string& how) {
    return fail(Code::kCorrupt, "{}: {} since it was {}, {}: {}", file.path(), what,
                is_stored_ ? "indexed" : "listed", how,
                is_stored_ ? fmt::format("run `forebay index {}` again", path_)
                           : std::string("open the data again"));
  };
  const auto sizes = [](uint64_t before, uint64_t after) {
    return fmt::format("from {} bytes to {}", before, after);
  };
  if (shard_of_chunk_.empty()) {
    const uint64_t listed = chunks_.at(chunk).bytes;
    if (now.size == listed || listed == 0) return {};
    return changed("its size changed", sizes(listed, now.size));
  }
  const InPlaceShard& listed = index_.shards[shard_of_chunk_.at(chunk)];
  if (now.size != listed.bytes) return changed("changed", sizes(listed.bytes, now.size));
  if (now.modified_ns != listed.modified_ns) return changed("changed", "it was written to");
  return {};
}

}  // namespace

std::shared_ptr<const Dataset> make_in_place(const io::Origin& origin, InPlaceIndex index,
                                             bool is_stored, std::string path,
                                             ResolvedSource places) {
  return std::make_shared<InPlaceDataset>(origin, std::move(index), is_stored, std::move(path),
                                          std::move(places));
}

namespace {

// A folder without images may be a copy of a packed dataset that was interrupted.
Status explain(const io::Origin& origin, const std::string& path, const Status& error) {
  if (error.code() != Code::kInvalid || !origin.stat(copy_mark_path(path))) return error;
  return fail(Code::kNotFound,
              "{}: this is a copy that is not complete; run the same `forebay cp` again to go on",
              path);
}

Result<std::shared_ptr<const Dataset>> open_in_place(const io::Origin& origin,
                                                     const std::string& path) {
  ASSIGN_OR_RETURN(ResolvedSource places, resolve_source(origin, path));
  auto index = read_index(origin, places);
  const bool is_stored = index.has_value();
  if (!is_stored) {
    const Status why = index.error();
    IndexRemarks remarks;  // not used: the index's notes summarise them
    index = make_index(origin, places, OnBadShard::kFail, &remarks);
    if (!index) return tl::unexpected(explain(origin, path, index.error()));
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
  return make_in_place(origin, std::move(*index), is_stored, path, std::move(places));
}

}  // namespace

Result<std::shared_ptr<const Dataset>> open_dataset(const io::Origin& origin,
                                                    const std::string& path,
                                                    const OpenOptions& options) {
  ASSIGN_OR_RETURN(auto packed, open_if_packed(origin, path, options));
  return packed != nullptr ? packed : open_in_place(origin, path);
}

Result<std::shared_ptr<const Dataset>> open_files(const io::Origin& origin,
                                                  const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const Listing listing, list_files(origin, paths));
  if (listing.samples.size() > UINT32_MAX) {
    return fail(Code::kTooBig, "{} images, more than {}", listing.samples.size(), UINT32_MAX);
  }
  ResolvedSource places;
  places.folder = listing.root;
  return make_in_place(origin, index_of(places, listing), false, listing.root, places);
}

}  // namespace forebay::store
