#include "store/format/in_place_index.h"

#include <algorithm>

#include "base/limits.h"
#include "store/format/schema_codec.h"
#include "store/format/tar.h"

namespace forebay::store {

using base::ByteReader;
using base::ByteVector;
using base::ByteWriter;
using base::Code;
using base::fail;

namespace {

constexpr std::string_view kMagic = "FBPLACE";
constexpr uint8_t kVersion = 0;
constexpr size_t kCrcBytes = 4;
// The smallest sizes of records. With them, counts are checked before memory is reserved.
constexpr size_t kFolderBytesMin = 12;
constexpr size_t kShardBytesMin = 24;
constexpr size_t kSampleBytesMin = 19;

}  // namespace

void InPlaceIndex::add(std::string_view key, std::string_view path, InPlaceSample sample) {
  FOREBAY_CHECK(key.size() <= base::kKeyBytesMax && path.size() <= base::kSourcePathBytesMax);
  const auto [end, path_end] = std::ranges::mismatch(key, path);
  sample.name_at = names.size();
  sample.key_bytes = static_cast<uint16_t>(key.size());
  sample.path_common = static_cast<uint16_t>(end - key.begin());
  sample.path_rest = static_cast<uint16_t>(path.end() - path_end);
  names += key;
  names.append(path_end, path.end());
  samples.push_back(sample);
}

std::string_view InPlaceIndex::key(uint64_t sample) const {
  const InPlaceSample& at = samples.at(sample);
  return std::string_view(names).substr(at.name_at, at.key_bytes);
}

std::string InPlaceIndex::path(uint64_t sample) const {
  const InPlaceSample& at = samples.at(sample);
  const auto text = std::string_view(names).substr(at.name_at);
  return std::string(text.substr(0, at.path_common)) +
         std::string(text.substr(at.key_bytes, at.path_rest));
}

// Encoding

namespace {

void encode_sample(const InPlaceIndex& index, const InPlaceSample& sample, ByteWriter* out) {
  const std::string_view text = std::string_view(index.names).substr(sample.name_at);
  out->sized(text.substr(0, sample.key_bytes));
  out->number(sample.path_common);
  out->sized(text.substr(sample.key_bytes, sample.path_rest));
  out->number(sample.label);
  out->number(sample.length);
  if (index.kind == SourceKind::kWebDataset) out->number(sample.offset);
  if (index.has_checksums) out->number(sample.crc32c);
}

}  // namespace

ByteVector encode_in_place_index(const InPlaceIndex& index) {
  ByteVector data(kMagic.begin(), kMagic.end());
  ByteWriter out(&data);
  out.number(kVersion);
  out.number(static_cast<uint8_t>(index.kind));
  out.number(static_cast<uint8_t>(index.has_checksums));
  encode_schema(index.schema, &out);
  out.number(static_cast<uint32_t>(index.notes.size()));
  for (const std::string& note : index.notes) out.sized(note);
  out.number(static_cast<uint32_t>(index.folders.size()));
  for (const SourceFolder& folder : index.folders) {
    out.sized(folder.path);
    out.number(folder.modified_ns);
  }
  out.number(static_cast<uint32_t>(index.shards.size()));
  for (const InPlaceShard& shard : index.shards) {
    out.sized(shard.path);
    out.number(shard.bytes);
    out.number(shard.modified_ns);
    out.number(shard.samples);
  }
  out.number(static_cast<uint64_t>(index.samples.size()));
  for (const InPlaceSample& sample : index.samples) encode_sample(index, sample, &out);
  out.bytes(index.fingerprint);
  out.number(base::crc32c(data));
  return data;
}

// Decoding

namespace {

// Whether a path, which readers join to the data's folder, stays inside that folder.
bool stays_inside(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

struct Decoder {
  ByteReader in;
  InPlaceIndex* index;

  // Reads a count of records that have at least `bytes` bytes each.
  Result<uint64_t> decode_count(uint64_t count, size_t bytes, std::string_view what) const {
    if (in.ok() && count <= in.remaining() / bytes) return count;
    return fail(Code::kCorrupt, "{} {} do not fit in the remaining bytes", count, what);
  }

  Status decode_head();
  Status decode_notes();
  Status decode_folders();
  Status decode_shards();
  Status decode_samples();
  Status decode_sample();
  Status check_samples() const;
};

Status Decoder::decode_head() {
  const auto kind = in.number<uint8_t>();
  const auto checksums = in.number<uint8_t>();
  if (kind > static_cast<uint8_t>(SourceKind::kWebDataset) || checksums > 1) {
    return fail(Code::kCorrupt, "unknown kind of data {}, or unknown checksum flag {}", kind,
                checksums);
  }
  index->kind = static_cast<SourceKind>(kind);
  index->has_checksums = checksums == 1;
  ASSIGN_OR_RETURN(index->schema, decode_schema(&in));
  return {};
}

Status Decoder::decode_notes() {
  const auto count = in.number<uint32_t>();
  if (count > base::kInPlaceNotesMax) return fail(Code::kCorrupt, "{} notes", count);
  for (uint32_t i = 0; i < count; ++i) {
    index->notes.emplace_back(in.sized(base::kInPlaceNoteBytesMax));
  }
  if (!in.ok()) return fail(Code::kCorrupt, "its notes are cut off or too long");
  return {};
}

Status Decoder::decode_folders() {
  ASSIGN_OR_RETURN(const auto count,
                   decode_count(in.number<uint32_t>(), kFolderBytesMin, "folders"));
  if ((count > 0) != (index->kind == SourceKind::kFolder)) {
    return fail(Code::kCorrupt, "{} folders, which does not agree with its kind of data", count);
  }
  index->folders.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SourceFolder& folder = index->folders.emplace_back();
    folder.path = in.sized(base::kSourcePathBytesMax);
    folder.modified_ns = in.number<int64_t>();
    if (!in.ok() || !stays_inside(folder.path)) {
      return fail(Code::kCorrupt, "folder {} is cut off, or its path is not valid", i);
    }
  }
  return {};
}

Status Decoder::decode_shards() {
  ASSIGN_OR_RETURN(const auto count, decode_count(in.number<uint32_t>(), kShardBytesMin, "shards"));
  if ((count > 0) != (index->kind == SourceKind::kWebDataset)) {
    return fail(Code::kCorrupt, "{} shards, which does not agree with its kind of data", count);
  }
  index->shards.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    InPlaceShard& shard = index->shards.emplace_back();
    shard.path = in.sized(base::kSourcePathBytesMax);
    shard.bytes = in.number<uint64_t>();
    shard.modified_ns = in.number<int64_t>();
    shard.samples = in.number<uint32_t>();
    if (!in.ok() || shard.path.empty()) return fail(Code::kCorrupt, "shard {} is cut off", i);
  }
  return {};
}

Status Decoder::decode_sample() {
  InPlaceSample sample{.name_at = index->names.size()};
  const std::string_view key = in.sized(base::kKeyBytesMax);
  sample.path_common = in.number<uint16_t>();
  const std::string_view rest = in.sized(base::kSourcePathBytesMax);
  sample.label = in.number<int32_t>();
  sample.length = in.number<uint32_t>();
  if (index->kind == SourceKind::kWebDataset) sample.offset = in.number<uint64_t>();
  if (index->has_checksums) sample.crc32c = in.number<uint32_t>();
  if (!in.ok() || key.empty() || sample.path_common > key.size()) {
    return fail(Code::kCorrupt, "it is cut off, or its key or path is not valid");
  }
  sample.key_bytes = static_cast<uint16_t>(key.size());
  sample.path_rest = static_cast<uint16_t>(rest.size());
  const size_t classes = index->schema.classes.size();
  if (sample.label < -1 || (classes > 0 && sample.label >= static_cast<int64_t>(classes))) {
    return fail(Code::kCorrupt, "class number {} is out of range ({} classes)", sample.label,
                classes);
  }
  index->names += key;
  index->names += rest;
  index->samples.push_back(sample);
  if (index->kind == SourceKind::kFolder && !stays_inside(index->path(index->samples.size() - 1))) {
    return fail(Code::kCorrupt, "its path leads out of the folder");
  }
  return {};
}

Status Decoder::decode_samples() {
  ASSIGN_OR_RETURN(const auto count,
                   decode_count(in.number<uint64_t>(), kSampleBytesMin, "samples"));
  if (count == 0 || count > base::kSourceEntriesMax) {
    return fail(Code::kCorrupt, "{} samples", count);
  }
  index->samples.reserve(count);
  // The names take at most this many bytes, and rarely much less.
  index->names.reserve(in.remaining() - count * (kSampleBytesMin - 1));
  for (uint64_t i = 0; i < count; ++i) {
    const Status status = decode_sample();
    if (!status.ok()) return status.at(fmt::format("sample {}", i));
  }
  return {};
}

// Checks that the shards have all samples, and that the samples of a shard lie in it one after the
// other.
Status Decoder::check_samples() const {
  if (index->kind == SourceKind::kFolder) {
    if (index->samples.size() <= UINT32_MAX) return {};
    return fail(Code::kTooBig, "{} files", index->samples.size());
  }
  uint64_t all = 0;
  for (const InPlaceShard& shard : index->shards) all += shard.samples;
  if (all != index->samples.size()) {
    return fail(Code::kCorrupt, "{} samples, {} in its shards", index->samples.size(), all);
  }
  auto sample = index->samples.begin();
  for (const InPlaceShard& shard : index->shards) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < shard.samples; ++i, ++sample) {
      if (sample->offset < std::max<uint64_t>(end, kTarBlockBytes) ||
          !base::in_bounds(sample->offset, sample->length, shard.bytes)) {
        return fail(Code::kCorrupt, "sample {} of shard {} lies outside it or overlaps another", i,
                    shard.path);
      }
      end = sample->offset + sample->length;
    }
  }
  return {};
}

}  // namespace

Result<InPlaceIndex> decode_in_place_index(Bytes data) {
  constexpr size_t kFrame = kMagic.size() + 1 + kCrcBytes;
  if (data.size() < kFrame || !base::as_text(data).starts_with(kMagic)) {
    return fail(Code::kCorrupt, "its first bytes are not those of an index of data in place");
  }
  const Bytes content = data.first(data.size() - kCrcBytes);
  if (base::crc32c(content) != base::load_le<uint32_t>(data.data() + content.size())) {
    return fail(Code::kCorrupt, "its checksum does not match: it is damaged or cut off");
  }
  // The version is checked after the checksum, so that a flipped bit counts as damage and not as
  // another version.
  if (const uint8_t version = data[kMagic.size()]; version != kVersion) {
    return fail(Code::kUnsupported, "format version {}; this Forebay reads version {}", version,
                kVersion);
  }
  InPlaceIndex index;
  Decoder decoder{.in = ByteReader(content.subspan(kMagic.size() + 1)), .index = &index};
  RETURN_IF_ERROR(decoder.decode_head());
  RETURN_IF_ERROR(decoder.decode_notes());
  RETURN_IF_ERROR(decoder.decode_folders());
  RETURN_IF_ERROR(decoder.decode_shards());
  RETURN_IF_ERROR(decoder.decode_samples());
  RETURN_IF_ERROR(decoder.check_samples());
  const Bytes fingerprint = decoder.in.bytes(index.fingerprint.size());
  if (!decoder.in.ok() || decoder.in.remaining() != 0) {
    return fail(Code::kCorrupt, "cut off, or followed by more bytes");
  }
  std::ranges::copy(fingerprint, index.fingerprint.begin());
  return index;
}

}  // namespace forebay::store
