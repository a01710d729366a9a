#include "store/dataset.h"

#include <algorithm>

#include "base/limits.h"
#include "io/blocking_file.h"
#include "store/format/snapshot.h"
#include "store/format/tar.h"
#include "store/snapshot_part.h"
#include "store/source/tar_reader.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;
using base::Sha256;

namespace {

// The beginning of a file that was read already, as a file of the whole file's size.
class FileHead final : public io::BlockingFile {
 public:
  FileHead(const io::ReadableFile& file, const ByteVector& head)
      : BlockingFile(file.path(), file.identity()), head_(head) {}

 private:
  Result<size_t> read_some(uint64_t offset, base::MutableBytes out) const override {
    if (offset >= head_.size()) return size_t{0};
    const size_t length = std::min<uint64_t>(out.size(), head_.size() - offset);
    std::copy_n(head_.begin() + static_cast<ptrdiff_t>(offset), length, out.begin());
    return length;
  }

  const ByteVector& head_;
};

// A part, and where in the dataset its samples begin.
struct PlacedPart {
  Part part;
  uint64_t first_sample = 0;
};

class OpenDataset final : public Dataset {
 public:
  static Result<std::shared_ptr<const Dataset>> open(const io::Origin& origin,
                                                     const std::string& path);

  OpenDataset(const io::Origin& origin, std::string path)
      : origin_(origin), path_(std::move(path)) {}

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
    return origin_.open(chunk_label(number), {.cached = caching == Caching::kCached,
                                              .known = io::Identity{.size = chunk(number).bytes}});
  }
  bool is_remote(uint32_t) const override { return origin_.is_remote(path_); }
  size_t ranges_max(uint32_t) const override { return origin_.ranges_max(path_); }
  uint32_t chunk_of(uint64_t sample) const override;
  Location location(uint64_t sample) const override;
  const Sha256& fingerprint() const override { return fingerprint_; }

  Result<std::string> key(uint64_t sample) const override;
  Result<std::vector<std::string>> chunk_keys(uint32_t number) const override;
  Result<std::optional<uint64_t>> find(std::string_view key) const override;
  Result<ChunkIndex> read_chunk_index(uint32_t number,
                                      const io::ReadOptions& options) const override;

 private:
  Status add_part(const PartRef& ref);
  const PlacedPart& part_of(uint64_t sample) const;

  const io::Origin& origin_;
  const std::string path_;
  Schema schema_;
  std::vector<PlacedPart> parts_;
  std::vector<ChunkInfo> chunks_;
  uint64_t samples_ = 0;
  Sha256 fingerprint_{};
};

Result<SnapshotRoot> read_root(const io::Origin& origin, const std::string& path) {
  const std::string head_file = head_path(path);
  auto head = io::read_file(origin, head_file, base::kHeadBytesMax);
  if (!head && head.error().code() == Code::kNotFound) {
    return fail(Code::kNotFound,
                "{}: no dataset there (it has no file HEAD); make one with `forebay pack`", path);
  }
  RETURN_IF_ERROR(head);
  const auto id = decode_head(base::as_text(*head));
  if (!id) return tl::unexpected(Status(id.error().code(), id.error().message()).at(head_file));
  const std::string root_file = root_path(path, *id);
  ASSIGN_OR_RETURN(const ByteVector data,
                   io::read_file(origin, root_file, base::kSnapshotRootBytesMax));
  if (base::sha256(data) != *id) {
    return fail(Code::kCorrupt, "{}: damaged: its content does not have the hash that names it",
                root_file);
  }
  auto root = decode_root(data);
  if (!root) return tl::unexpected(root.error().at(root_file));
  return root;
}

// A chunk's id says everything of the chunk's content, its samples' labels too. How the chunks are
// divided into parts must not count: parts are merged without changing the dataset.
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
                                                         const std::string& path) {
  ASSIGN_OR_RETURN(SnapshotRoot root, read_root(origin, path));
  auto dataset = std::make_shared<OpenDataset>(origin, path);
  for (const PartRef& ref : root.parts) RETURN_IF_ERROR(dataset->add_part(ref));
  dataset->schema_ = std::move(root.schema);
  dataset->fingerprint_ = fingerprint_of(dataset->chunks_, dataset->schema_);
  return dataset;
}

Status OpenDataset::add_part(const PartRef& ref) {
  ASSIGN_OR_RETURN(Part part, Part::open(origin_, part_path(path_, ref.id), ref));
  const uint64_t chunk_count = chunks_.size() + part.chunks().size();
  if (chunk_count > UINT32_MAX) {
    return fail(Code::kTooBig, "{}: {} chunks, more than {}", path_, chunk_count, UINT32_MAX);
  }
  for (ChunkInfo chunk : part.chunks()) {
    chunk.first_sample += samples_;
    chunks_.push_back(chunk);
  }
  const uint64_t first_sample = samples_;
  samples_ += part.samples();
  parts_.push_back({std::move(part), first_sample});
  return {};
}

const PlacedPart& OpenDataset::part_of(uint64_t sample) const {
  FOREBAY_CHECK(sample < samples_);
  const auto after = std::upper_bound(
      parts_.begin(), parts_.end(), sample,
      [](uint64_t number, const PlacedPart& placed) { return number < placed.first_sample; });
  return *std::prev(after);
}

uint32_t OpenDataset::chunk_of(uint64_t sample) const {
  FOREBAY_CHECK(sample < samples_);
  return store::chunk_of(chunks_, sample);
}

Location OpenDataset::location(uint64_t sample) const {
  const PlacedPart& placed = part_of(sample);
  Location location = placed.part.location(static_cast<uint32_t>(sample - placed.first_sample));
  location.chunk = chunk_of(sample);
  return location;
}

Result<std::string> OpenDataset::key(uint64_t sample) const {
  const PlacedPart& placed = part_of(sample);
  return placed.part.key(static_cast<uint32_t>(sample - placed.first_sample));
}

// A chunk never lies in two parts.
Result<std::vector<std::string>> OpenDataset::chunk_keys(uint32_t number) const {
  const ChunkInfo& info = chunk(number);
  const PlacedPart& placed = part_of(info.first_sample);
  const auto begin = static_cast<uint32_t>(info.first_sample - placed.first_sample);
  return placed.part.keys(begin, begin + info.samples);
}

Result<std::optional<uint64_t>> OpenDataset::find(std::string_view key) const {
  for (const PlacedPart& placed : parts_) {
    ASSIGN_OR_RETURN(const auto found, placed.part.find(key));
    if (found) return placed.first_sample + *found;
  }
  return std::nullopt;
}

// Reads the tar header and the index at once, because over a network each read is a round trip.
Result<ChunkIndex> OpenDataset::read_chunk_index(uint32_t number,
                                                 const io::ReadOptions& options) const {
  const ChunkInfo& info = chunk(number);
  const std::string path = chunk_label(number);
  ASSIGN_OR_RETURN(const auto file, open_chunk(number, Caching::kCached));
  const uint64_t bytes = file->identity().size;
  if (bytes != info.bytes) {
    return fail(Code::kCorrupt, "{}: {} bytes where the snapshot says {}; run `forebay verify {}`",
                path, bytes, info.bytes, path_);
  }
  if (info.index_bytes > base::kChunkIndexBytesMax) {
    return fail(Code::kTooBig, "{}: an index of {} bytes, more than {}", path, info.index_bytes,
                base::kChunkIndexBytesMax);
  }
  ByteVector head(std::min(bytes, kTarBlockBytes + info.index_bytes));
  RETURN_IF_ERROR(file->read(0, head, options));
  const FileHead head_file(*file, head);
  TarReader tar(head_file);
  ASSIGN_OR_RETURN(const auto first, tar.next());
  if (!first || first->name != kChunkIndexName || first->size != info.index_bytes ||
      first->offset != kTarBlockBytes || first->type != TarType::kFile) {
    return fail(Code::kCorrupt, "{}: its first member is not the index that the snapshot says",
                path);
  }
  auto index = decode_chunk_index(base::Bytes(head).subspan(kTarBlockBytes), bytes);
  if (!index) return tl::unexpected(index.error().at(path));
  if (index->samples.size() != info.samples || index->schema.fields != schema_.fields) {
    return fail(Code::kCorrupt,
                "{}: its index has {} samples where the snapshot says {}, or other "
                "fields: it is not the chunk of that name",
                path, index->samples.size(), info.samples);
  }
  return index;
}

}  // namespace

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

Result<std::shared_ptr<const Dataset>> open_packed(const io::Origin& origin,
                                                   const std::string& path) {
  return OpenDataset::open(origin, path);
}

Status check_length(const Location& location) {
  if (location.length <= base::kImageBytesMax) return {};
  return fail(Code::kTooBig, "{} are more than an image may have",
              base::human_bytes(location.length));
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
  return fail(Code::kCorrupt, "{}: truncated: ends at byte {} where {} more were expected",
              chunk.path(), ends, offset + length - ends);
}

Status Dataset::read_file(const Location& location, ByteVector* file,
                          const io::ReadOptions& options) const {
  RETURN_IF_ERROR(check_length(location));
  ASSIGN_OR_RETURN(const auto chunk, open_chunk(location.chunk));
  RETURN_IF_ERROR(check_inside(*chunk, location.offset, location.length));
  file->resize(location.length);
  RETURN_IF_ERROR(chunk->read(location.offset, *file, options));
  return check_file(*file, location);
}

}  // namespace forebay::store
