#include "store/dataset.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/limits.h"
#include "io/blocking_file.h"
#include "io/share_work.h"
#include "store/format/snapshot.h"
#include "store/format/tar.h"
#include "store/kept.h"
#include "store/snapshot_part.h"
#include "store/source/tar_reader.h"
#include "store/stored_snapshot.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;
using base::Sha256;

namespace {

// How many parts are opened at the same time over a network.
constexpr size_t kPartsAtOnce = 8;

// A part, and the numbers in the dataset of its first sample and its first chunk.
struct PlacedPart {
  std::unique_ptr<const Part> part;
  uint64_t first_sample = 0;
  uint32_t first_chunk = 0;
};

class OpenDataset final : public Dataset {
 public:
  // `head` is the content of HEAD.
  static Result<std::shared_ptr<const Dataset>> open(const io::Origin& origin,
                                                     const std::string& path, std::string_view head,
                                                     const OpenOptions& options);

  OpenDataset(const io::Origin& origin, std::string path, const OpenOptions& options)
      : origin_(origin),
        path_(std::move(path)),
        is_remote_(origin.is_remote(path_)),
        kept_(is_remote_ ? options.kept : nullptr) {}

  const std::string& path() const override { return path_; }
  const Schema& schema() const override { return schema_; }
  uint64_t sample_count() const override { return samples_; }
  uint32_t chunk_count() const override { return static_cast<uint32_t>(chunks_.size()); }
  const ChunkInfo& chunk(uint32_t number) const override { return chunks_.at(number); }
  std::string chunk_label(uint32_t number) const override {
    return chunk_path(path_, chunk(number).id);
  }
  Result<std::unique_ptr<io::ReadableFile>> open_chunk(uint32_t number,
                                                       Caching caching) const override {
    return origin_.open(chunk_label(number),
                        open_options(caching, io::Identity{.size = chunk(number).bytes}));
  }
  ChunkOrigin origin(uint32_t) const override { return {origin_, path_}; }
  uint32_t chunk_of(uint64_t sample) const override;
  Location location(uint64_t sample) const override;
  Status load_locations(std::span<const uint32_t> chunks,
                        const io::ReadOptions& options) const override;
  Status load_all_locations(const io::ReadOptions& options) const override;
  bool knows_locations(uint32_t chunk) const override;
  const io::KeptFiles* kept(uint32_t) const override { return kept_.get(); }
  const Sha256& fingerprint() const override { return fingerprint_; }

  using Dataset::key;
  Result<std::string> key(uint64_t sample, const io::ReadOptions& options) const override;
  Result<std::vector<std::string>> chunk_keys(uint32_t number) const override;
  Result<std::optional<uint64_t>> find(std::string_view key) const override;
  Result<ChunkIndex> read_chunk_index(uint32_t number,
                                      const io::ReadOptions& options) const override;
  std::vector<std::string> notes() const override;

 private:
  Result<std::vector<std::unique_ptr<const Part>>> open_parts(std::span<const PartRef> refs) const;
  Status add_part(std::unique_ptr<const Part> part);
  const PlacedPart& part_of(uint64_t sample) const;
  const PlacedPart& part_of_chunk(uint32_t number) const;
  Result<ByteVector> read_chunk_head(uint32_t number, Caching caching,
                                     const io::ReadOptions& options) const;
  Result<ChunkIndex> decode_chunk_head(uint32_t number, Bytes head) const;
  void learn_locations(uint32_t number, const ChunkIndex& index) const;

  const io::Origin& origin_;
  const std::string path_;
  const bool is_remote_;
  const std::shared_ptr<const io::KeptFiles> kept_;
  Schema schema_;
  std::vector<PlacedPart> parts_;
  std::vector<ChunkInfo> chunks_;
  uint64_t samples_ = 0;
  Sha256 fingerprint_{};
};

// A chunk's id covers all of its content, including labels. The division into parts must not count,
// because parts can be merged without changing the dataset.
Sha256 fingerprint_of(std::span<const ChunkInfo> chunks, const Schema& schema) {
  ByteVector content;
  content.reserve(chunks.size() * (sizeof(Sha256) + sizeof(uint32_t)));
  base::ByteWriter writer(&content);
  for (const ChunkInfo& chunk : chunks) {
    writer.bytes(chunk.id);
    writer.number(chunk.samples);
  }
  for (const std::string& name : schema.classes) writer.sized(name);
  return base::sha256(content);
}

Result<std::shared_ptr<const Dataset>> OpenDataset::open(const io::Origin& origin,
                                                         const std::string& path,
                                                         std::string_view head,
                                                         const OpenOptions& options) {
  auto dataset = std::make_shared<OpenDataset>(origin, path, options);
  ASSIGN_OR_RETURN(StoredSnapshot snapshot, read_root(origin, path, head, dataset->kept_.get()));
  SnapshotRoot& root = snapshot.root;
  ASSIGN_OR_RETURN(auto parts, dataset->open_parts(root.parts));
  for (auto& part : parts) RETURN_IF_ERROR(dataset->add_part(std::move(part)));
  dataset->schema_ = std::move(root.schema);
  dataset->fingerprint_ = fingerprint_of(dataset->chunks_, dataset->schema_);
  if (options.loads_locations) RETURN_IF_ERROR(dataset->load_all_locations({}));
  return dataset;
}

// Over a network each part costs a round trip, so several are opened at once.
Result<std::vector<std::unique_ptr<const Part>>> OpenDataset::open_parts(
    std::span<const PartRef> refs) const {
  const PartOptions options{.kept = kept_.get(), .reads_samples = !is_remote_};
  std::vector<std::unique_ptr<const Part>> parts(refs.size());
  const auto open = [&](uint64_t begin, uint64_t end, size_t) -> Status {
    for (uint64_t i = begin; i < end; ++i) {
      ASSIGN_OR_RETURN(parts[i],
                       Part::open(origin_, part_path(path_, refs[i].id), refs[i], options));
    }
    return {};
  };
  const size_t threads = is_remote_ ? std::min(kPartsAtOnce, refs.size()) : 1;
  RETURN_IF_ERROR(io::share_work(refs.size(), 1, threads, open));
  return parts;
}

Status OpenDataset::add_part(std::unique_ptr<const Part> part) {
  const uint64_t chunk_count = chunks_.size() + part->chunks().size();
  if (chunk_count > UINT32_MAX) {
    return fail(Code::kTooBig, "{}: {} chunks, more than {}", path_, chunk_count, UINT32_MAX);
  }
  const PlacedPart placed{.part = nullptr,
                          .first_sample = samples_,
                          .first_chunk = static_cast<uint32_t>(chunks_.size())};
  for (ChunkInfo chunk : part->chunks()) {
    chunk.first_sample += samples_;
    chunks_.push_back(chunk);
  }
  samples_ += part->samples();
  parts_.push_back({std::move(part), placed.first_sample, placed.first_chunk});
  return {};
}

const PlacedPart& OpenDataset::part_of(uint64_t sample) const {
  FOREBAY_CHECK(sample < samples_);
  return *std::prev(std::ranges::upper_bound(parts_, sample, {}, &PlacedPart::first_sample));
}

const PlacedPart& OpenDataset::part_of_chunk(uint32_t number) const {
  FOREBAY_CHECK(number < chunks_.size());
  return *std::prev(std::ranges::upper_bound(parts_, number, {}, &PlacedPart::first_chunk));
}

uint32_t OpenDataset::chunk_of(uint64_t sample) const {
  FOREBAY_CHECK(sample < samples_);
  return store::chunk_of(chunks_, sample);
}

Location OpenDataset::location(uint64_t sample) const {
  const PlacedPart& placed = part_of(sample);
  const SampleColumns& columns = placed.part->columns();
  const uint32_t chunk = chunk_of(sample);
  FOREBAY_CHECK(columns.knows(chunk - placed.first_chunk));
  Location location = columns.location(static_cast<uint32_t>(sample - placed.first_sample));
  location.chunk = chunk;
  return location;
}

bool OpenDataset::knows_locations(uint32_t chunk) const {
  const PlacedPart& placed = part_of_chunk(chunk);
  return placed.part->columns().knows(chunk - placed.first_chunk);
}

Status OpenDataset::load_locations(std::span<const uint32_t> chunks,
                                   const io::ReadOptions& options) const {
  std::vector<uint32_t> of_part;
  for (const PlacedPart& placed : parts_) {
    of_part.clear();
    for (const uint32_t chunk : chunks) {
      const uint32_t number = chunk - placed.first_chunk;
      if (chunk >= placed.first_chunk && number < placed.part->chunks().size()) {
        of_part.push_back(number);
      }
    }
    RETURN_IF_ERROR(placed.part->columns().load(of_part, options));
  }
  return {};
}

Status OpenDataset::load_all_locations(const io::ReadOptions& options) const {
  if (!is_remote_) return {};  // they were read at open
  std::vector<uint32_t> all(chunks_.size());
  std::iota(all.begin(), all.end(), 0u);
  return load_locations(all, options);
}

std::vector<std::string> OpenDataset::notes() const {
  const std::string trouble = kept_ == nullptr ? std::string() : kept_->trouble();
  if (trouble.empty()) return {};
  return {fmt::format(
      "{}; so this dataset's metadata is not kept on this machine, and the next process reads it "
      "over the network again: set FOREBAY_INDEX_CACHE to another folder, or to \"off\"",
      trouble)};
}

Result<std::string> OpenDataset::key(uint64_t sample, const io::ReadOptions& options) const {
  const PlacedPart& placed = part_of(sample);
  return placed.part->key(static_cast<uint32_t>(sample - placed.first_sample), options);
}

// A chunk never lies in two parts.
Result<std::vector<std::string>> OpenDataset::chunk_keys(uint32_t number) const {
  const ChunkInfo& info = chunk(number);
  const PlacedPart& placed = part_of(info.first_sample);
  const auto begin = static_cast<uint32_t>(info.first_sample - placed.first_sample);
  return placed.part->keys(begin, begin + info.samples);
}

Result<std::optional<uint64_t>> OpenDataset::find(std::string_view key) const {
  for (const PlacedPart& placed : parts_) {
    ASSIGN_OR_RETURN(const auto found, placed.part->find(key));
    if (found) return placed.first_sample + *found;
  }
  return std::nullopt;
}

Result<ChunkIndex> OpenDataset::read_chunk_index(uint32_t number,
                                                 const io::ReadOptions& options) const {
  auto index = kept_or_read(
      kept_.get(), kept_name(chunk(number).id, kKeptIndex), is_remote_,
      [&, caching = Caching::kCached]() mutable {
        return read_chunk_head(number, std::exchange(caching, Caching::kAnew), options);
      },
      [&](Bytes head) { return decode_chunk_head(number, head); });
  if (index && !knows_locations(number)) learn_locations(number, *index);
  return index;
}

// Reads the tar header and the index at once, because over a network each read is a round trip.
Result<ByteVector> OpenDataset::read_chunk_head(uint32_t number, Caching caching,
                                                const io::ReadOptions& options) const {
  const ChunkInfo& info = chunk(number);
  const std::string path = chunk_label(number);
  ASSIGN_OR_RETURN(const auto file, open_chunk(number, caching));
  const uint64_t bytes = file->identity().size;
  if (bytes != info.bytes) {
    return fail(Code::kCorrupt, "{}: {} bytes, but the snapshot says {}; run `forebay verify {}`",
                path, bytes, info.bytes, path_);
  }
  if (info.index_bytes > base::kChunkIndexBytesMax) {
    return fail(Code::kTooBig, "{}: an index of {} bytes, more than {}", path, info.index_bytes,
                base::kChunkIndexBytesMax);
  }
  ByteVector head(std::min(bytes, kTarBlockBytes + info.index_bytes));
  RETURN_IF_ERROR(file->read(0, head, options));
  return head;
}

// `head`: the chunk's first bytes, up to the end of its index.
Result<ChunkIndex> OpenDataset::decode_chunk_head(uint32_t number, Bytes head) const {
  const ChunkInfo& info = chunk(number);
  const std::string path = chunk_label(number);
  const io::LoadedFile head_file(path, head, info.bytes);
  TarReader tar(head_file);
  ASSIGN_OR_RETURN(const auto first, tar.next());
  if (!first || first->name != kChunkIndexName || first->size != info.index_bytes ||
      first->offset != kTarBlockBytes || first->type != TarType::kFile) {
    return fail(Code::kCorrupt,
                "{}: its first member is not an index of the size that the snapshot says", path);
  }
  auto index = decode_chunk_index(head.subspan(kTarBlockBytes), info.bytes);
  if (!index) return tl::unexpected(index.error().at(path));
  if (index->samples.size() != info.samples || index->schema.fields != schema_.fields) {
    return fail(
        Code::kCorrupt,
        "{}: its index has {} samples, but the snapshot says {}, or their fields differ: it "
        "is not the chunk of that name",
        path, index->samples.size(), info.samples);
  }
  return index;
}

// A chunk's index has the same locations as the snapshot, so they need not be read from there.
void OpenDataset::learn_locations(uint32_t number, const ChunkIndex& index) const {
  std::vector<Location> locations;
  locations.reserve(index.samples.size());
  for (const IndexedSample& sample : index.samples) {
    const StoredFile* const image = image_file(index.schema, sample);
    if (image == nullptr) return;
    locations.push_back({.length = static_cast<uint32_t>(image->length),
                         .offset = image->offset,
                         .crc32c = image->crc32c,
                         .label = static_cast<int32_t>(class_of(index.schema, sample))});
  }
  const PlacedPart& placed = part_of_chunk(number);
  placed.part->columns().learn(number - placed.first_chunk, locations);
}

}  // namespace

std::string note_of_missing_classes(uint64_t without, uint64_t samples,
                                    std::string_view first_key) {
  if (without == 0 || without == samples) return {};
  return fmt::format(
      "{} of {} have no class, so their label is -1; the first is {}. Give each sample its class "
      "(in a shard: a .cls file beside the image), or leave them out with Dataset.filter",
      without, base::counted(samples, "sample"), first_key);
}

std::string note_of_missing_classes(const Dataset& dataset) {
  uint64_t without = 0;
  uint64_t first = 0;
  for (uint64_t i = 0; i < dataset.sample_count(); ++i) {
    if (dataset.location(i).label >= 0) continue;
    if (without++ == 0) first = i;
  }
  if (without == 0 || without == dataset.sample_count()) return {};
  return note_of_missing_classes(without, dataset.sample_count(), dataset.key(first).value_or("?"));
}

uint32_t chunk_of(std::span<const ChunkInfo> chunks, uint64_t sample) {
  const auto after = std::ranges::upper_bound(chunks, sample, {}, &ChunkInfo::first_sample);
  return static_cast<uint32_t>(after - chunks.begin() - 1);
}

Result<std::vector<uint64_t>> Dataset::find_all(std::string_view key) const {
  ASSIGN_OR_RETURN(const auto found, find(key));
  return found ? std::vector<uint64_t>{*found} : std::vector<uint64_t>();
}

Result<std::vector<std::string>> Dataset::chunk_keys(uint32_t number) const {
  const ChunkInfo& info = chunk(number);
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < info.samples; ++i) {
    ASSIGN_OR_RETURN(keys.emplace_back(), key(info.first_sample + i));
  }
  return keys;
}

Status Dataset::load_locations(std::span<const uint32_t>, const io::ReadOptions&) const {
  return {};
}
Status Dataset::load_all_locations(const io::ReadOptions&) const { return {}; }
bool Dataset::knows_locations(uint32_t) const { return true; }
const io::KeptFiles* Dataset::kept(uint32_t) const { return nullptr; }

Result<std::shared_ptr<const Dataset>> open_packed(const io::Origin& origin,
                                                   const std::string& path,
                                                   const OpenOptions& options) {
  ASSIGN_OR_RETURN(auto dataset, open_if_packed(origin, path, options));
  if (dataset != nullptr) return dataset;
  return fail(Code::kNotFound,
              "{}: no dataset there (it has no file HEAD); make one with `forebay pack`", path);
}

Result<std::shared_ptr<const Dataset>> open_if_packed(const io::Origin& origin,
                                                      const std::string& path,
                                                      const OpenOptions& options) {
  const auto head = origin.read_whole(head_path(path), base::kHeadBytesMax);
  if (!head && head.error().code() == Code::kNotFound) return nullptr;
  RETURN_IF_ERROR(head);
  return OpenDataset::open(origin, path, base::as_text(*head), options);
}

io::OpenOptions open_options(Caching caching, std::optional<io::Identity> known) {
  return {.cached = caching != Caching::kUncached,
          .known = std::move(known),
          .copies = caching == Caching::kAnew ? io::Copies::kAnew : io::Copies::kAny};
}

Status check_length(const Location& location) {
  if (location.length <= base::kImageBytesMax) return {};
  return fail(Code::kTooBig, "an image of {}, more than the limit of {}",
              base::human_bytes(location.length), base::human_bytes(base::kImageBytesMax));
}

Status check_file(Bytes file, const Location& location) {
  RETURN_IF_ERROR(check_length(location));
  if (!location.crc32c || base::crc32c(file) == *location.crc32c) return {};
  return fail(Code::kCorrupt, "its bytes do not have the checksum that was stored for them");
}

Status check_inside(const io::ReadableFile& chunk, uint64_t offset, uint64_t length) {
  const uint64_t size = chunk.identity().size;
  if (base::in_bounds(offset, length, size)) return {};
  const uint64_t ends = std::max(size, offset);
  return fail(Code::kCorrupt, "{}: truncated: ends at byte {}, but {} more were expected",
              chunk.path(), ends, offset + length - ends);
}

Status Dataset::read_file(const Location& location, ByteVector* file,
                          const io::ReadOptions& options) const {
  RETURN_IF_ERROR(check_length(location));
  ASSIGN_OR_RETURN(const auto chunk, open_chunk(location.chunk, Caching::kAnew));
  RETURN_IF_ERROR(check_inside(*chunk, location.offset, location.length));
  file->resize(location.length);
  RETURN_IF_ERROR(chunk->read(location.offset, *file, options));
  return check_file(*file, location);
}

}  // namespace forebay::store
