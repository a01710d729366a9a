#include "store/format/chunk_index.h"

#include <algorithm>
#include <unordered_set>

#include "base/checksum.h"
#include "base/limits.h"
#include "store/format/schema_codec.h"

namespace forebay::store {

using base::ByteReader;
using base::ByteVector;
using base::ByteWriter;
using base::Code;
using base::fail;

namespace {

constexpr std::string_view kMagic = "FBCHUNK";
constexpr uint8_t kVersion = 0;
constexpr size_t kCrcBytes = 4;
// A segment's length is stored in 16 bits. This value means that the length follows in 32 bits.
constexpr uint16_t kLongSegment = 0xffff;
constexpr size_t kSegmentBytesMin = 4;
// The encoded size of a sample without files, scalars, key and path.
constexpr size_t kSampleBytesMin = 10;
constexpr uint8_t kHasRestart = 0x80;

// Returns a sample's item in the first field of this kind.
template <class T>
const T* find_first(const Schema& schema, FieldKind kind, const std::vector<T>& items) {
  const auto field = std::find_if(schema.fields.begin(), schema.fields.end(),
                                  [&](const Field& f) { return f.kind == kind; });
  const auto number = static_cast<size_t>(field - schema.fields.begin());
  for (const T& item : items) {
    if (item.field == number) return &item;
  }
  return nullptr;
}

}  // namespace

const StoredFile* image_file(const Schema& schema, const IndexedSample& sample) {
  return find_first(schema, FieldKind::kImage, sample.files);
}

const ScalarValue* class_value(const Schema& schema, const IndexedSample& sample) {
  return find_first(schema, FieldKind::kClass, sample.scalars);
}

int64_t class_of(const Schema& schema, const IndexedSample& sample) {
  const ScalarValue* value = class_value(schema, sample);
  const int64_t* number = value == nullptr ? nullptr : std::get_if<int64_t>(&value->value);
  return number == nullptr ? -1 : *number;
}

// Encoding

namespace {

using SuffixNumbers = std::vector<std::string_view>;

// Numbers the suffixes in the order of their first use.
SuffixNumbers collect_suffixes(const ChunkIndex& index) {
  SuffixNumbers suffixes;
  std::unordered_set<std::string_view> seen;
  for (const IndexedSample& sample : index.samples) {
    for (const StoredFile& file : sample.files) {
      if (seen.insert(file.suffix).second) suffixes.push_back(file.suffix);
    }
  }
  return suffixes;
}

void encode_restart(const jpeg::RestartIndex& restart, ByteWriter* out) {
  out->number(restart.header_bytes);
  out->number(restart.header_crc32c);
  out->number(static_cast<uint32_t>(restart.segments.size()));
  for (const jpeg::SegmentEntry& segment : restart.segments) {
    const bool is_long = segment.length >= kLongSegment;
    out->number(is_long ? kLongSegment : static_cast<uint16_t>(segment.length));
    out->number(segment.check);
    if (is_long) out->number(segment.length);
  }
}

void encode_file(const StoredFile& file, const SuffixNumbers& suffixes, ByteWriter* out) {
  const auto suffix = std::find(suffixes.begin(), suffixes.end(), file.suffix);
  out->number(static_cast<uint8_t>(file.field));
  out->number(static_cast<uint16_t>(suffix - suffixes.begin()));
  out->number(file.offset);
  out->number(static_cast<uint32_t>(file.length));
  out->number(file.crc32c);
  out->number(file.width);
  out->number(file.height);
  const auto subsampling = static_cast<uint8_t>(file.subsampling);
  out->number(static_cast<uint8_t>(subsampling | (file.restart ? kHasRestart : 0)));
  if (file.restart) encode_restart(*file.restart, out);
}

void encode_scalar(const ScalarValue& scalar, ByteWriter* out) {
  out->number(static_cast<uint8_t>(scalar.field));
  if (const auto* number = std::get_if<int64_t>(&scalar.value)) {
    out->number(*number);
  } else {
    out->sized(std::get<std::string>(scalar.value));
  }
}

void encode_sample(const IndexedSample& sample, const SuffixNumbers& suffixes, ByteWriter* out) {
  out->sized(sample.key);
  out->sized(sample.source_path);
  out->number(static_cast<uint8_t>(sample.files.size()));
  for (const StoredFile& file : sample.files) encode_file(file, suffixes, out);
  out->number(static_cast<uint8_t>(sample.scalars.size()));
  for (const ScalarValue& scalar : sample.scalars) encode_scalar(scalar, out);
}

}  // namespace

ByteVector encode_chunk_index(const ChunkIndex& index) {
  ByteVector data(kMagic.begin(), kMagic.end());
  ByteWriter out(&data);
  out.number(kVersion);
  encode_schema(index.schema, &out);
  const SuffixNumbers suffixes = collect_suffixes(index);
  out.number(static_cast<uint16_t>(suffixes.size()));
  for (const std::string_view suffix : suffixes) out.sized(suffix);
  out.number(static_cast<uint32_t>(index.samples.size()));
  for (const IndexedSample& sample : index.samples) encode_sample(sample, suffixes, &out);
  out.number(base::crc32c(data));
  return data;
}

// Decoding

namespace {

struct Decoder {
  ByteReader in;
  uint64_t chunk_bytes;
  const Schema& schema;
  std::vector<std::string> suffixes{};

  Status decode_suffixes();
  Result<IndexedSample> decode_sample();
  Result<StoredFile> decode_file();
  Result<jpeg::RestartIndex> decode_restart(uint64_t file_bytes);
  Result<ScalarValue> decode_scalar();
  Result<uint16_t> decode_field();
};

Status Decoder::decode_suffixes() {
  const auto count = in.number<uint16_t>();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    suffixes.emplace_back(in.sized(base::kFieldNameBytesMax));
  }
  if (!in.ok()) return fail(Code::kCorrupt, "the suffixes are cut off or too long");
  return {};
}

Result<uint16_t> Decoder::decode_field() {
  const auto field = in.number<uint8_t>();
  if (!in.ok() || field >= schema.fields.size()) {
    return fail(Code::kCorrupt, "field number {} is out of range ({} fields)", field,
                schema.fields.size());
  }
  return field;
}

// A file consists of its header, the segments with 2 bytes of marker between them, and 2 bytes of
// EOI.
Result<jpeg::RestartIndex> Decoder::decode_restart(uint64_t file_bytes) {
  jpeg::RestartIndex restart;
  restart.header_bytes = in.number<uint32_t>();
  restart.header_crc32c = in.number<uint32_t>();
  const auto count = in.number<uint32_t>();
  if (!in.ok() || count == 0 || count > in.remaining() / kSegmentBytesMin) {
    return fail(Code::kCorrupt, "{} segments do not fit in the remaining bytes", count);
  }
  restart.segments.reserve(count);
  uint64_t total = uint64_t{restart.header_bytes} + 2 * uint64_t{count};
  for (uint32_t i = 0; i < count; ++i) {
    jpeg::SegmentEntry segment{.length = in.number<uint16_t>(), .check = in.number<uint16_t>()};
    if (segment.length == kLongSegment) {
      segment.length = in.number<uint32_t>();
      if (segment.length < kLongSegment)
        return fail(Code::kCorrupt, "a segment's short length is stored in the long form");
    }
    total += segment.length;
    restart.segments.push_back(segment);
  }
  if (!in.ok() || total != file_bytes) {
    return fail(Code::kCorrupt, "its segments add up to {} bytes, but the file has {}", total,
                file_bytes);
  }
  return restart;
}

Result<StoredFile> Decoder::decode_file() {
  StoredFile file;
  ASSIGN_OR_RETURN(file.field, decode_field());
  const auto suffix = in.number<uint16_t>();
  file.offset = in.number<uint64_t>();
  file.length = in.number<uint32_t>();
  file.crc32c = in.number<uint32_t>();
  file.width = in.number<uint32_t>();
  file.height = in.number<uint32_t>();
  const auto flags = in.number<uint8_t>();
  const int subsampling = flags & ~kHasRestart;
  if (!in.ok() || suffix >= suffixes.size() ||
      subsampling > static_cast<int>(jpeg::Subsampling::kOther)) {
    return fail(Code::kCorrupt, "a file's record is cut off or holds an unknown value");
  }
  file.suffix = suffixes[suffix];
  file.subsampling = static_cast<jpeg::Subsampling>(subsampling);
  if (!base::in_bounds(file.offset, file.length, chunk_bytes)) {
    return fail(Code::kCorrupt, "a file lies at bytes {} to {} of a chunk of {} bytes", file.offset,
                file.offset + file.length, chunk_bytes);
  }
  if (file.length > base::kFieldBytesMax || file.width > base::kImageSideMax ||
      file.height > base::kImageSideMax) {
    return fail(Code::kCorrupt, "a file of {} bytes, {} x {} pixels is above the limits",
                file.length, file.width, file.height);
  }
  if ((flags & kHasRestart) != 0) {
    ASSIGN_OR_RETURN(file.restart, decode_restart(file.length));
  }
  return file;
}

Result<ScalarValue> Decoder::decode_scalar() {
  ScalarValue scalar;
  ASSIGN_OR_RETURN(scalar.field, decode_field());
  const FieldKind kind = schema.fields[scalar.field].kind;
  if (kind == FieldKind::kClass) {
    const auto number = in.number<int64_t>();
    const bool known =
        schema.classes.empty() || static_cast<uint64_t>(number) < schema.classes.size();
    if (number < 0 || number > INT32_MAX || !known) {
      return fail(Code::kCorrupt, "class number {} is out of range ({} classes)", number,
                  schema.classes.size());
    }
    scalar.value = number;
  } else if (kind == FieldKind::kJson || kind == FieldKind::kText) {
    scalar.value = std::string(in.sized(base::kScalarBytesMax));
  } else {
    return fail(Code::kCorrupt, "a value in field \"{}\", which holds files",
                schema.fields[scalar.field].name);
  }
  if (!in.ok()) return fail(Code::kCorrupt, "a value is cut off or too long");
  return scalar;
}

// A sample has each field at most once.
template <class T>
bool fields_unique(const std::vector<T>& items) {
  uint64_t seen = 0;
  static_assert(base::kFieldsMax <= 64);
  for (const T& item : items) {
    if (seen >> item.field & 1) return false;
    seen |= uint64_t{1} << item.field;
  }
  return true;
}

Result<IndexedSample> Decoder::decode_sample() {
  IndexedSample sample;
  sample.key = in.sized(base::kKeyBytesMax);
  sample.source_path = in.sized(base::kSourcePathBytesMax);
  if (!in.ok() || sample.key.empty()) {
    return fail(Code::kCorrupt, "its key or path is missing, cut off or too long");
  }
  const auto files = in.number<uint8_t>();
  for (int i = 0; i < files; ++i) {
    ASSIGN_OR_RETURN(StoredFile file, decode_file());
    sample.files.push_back(std::move(file));
  }
  const auto scalars = in.number<uint8_t>();
  for (int i = 0; i < scalars; ++i) {
    ASSIGN_OR_RETURN(ScalarValue scalar, decode_scalar());
    sample.scalars.push_back(std::move(scalar));
  }
  if (!in.ok() || !fields_unique(sample.files) || !fields_unique(sample.scalars)) {
    return fail(Code::kCorrupt, "its record is cut off, or it has a field twice");
  }
  return sample;
}

Status check_keys_unique(const ChunkIndex& index) {
  std::unordered_set<std::string_view> keys;
  keys.reserve(index.samples.size());
  for (const IndexedSample& sample : index.samples) {
    if (!keys.insert(sample.key).second) {
      return fail(Code::kCorrupt, "two samples have the key \"{}\"", sample.key);
    }
  }
  return {};
}

Status check_no_overlap(const ChunkIndex& index) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const IndexedSample& sample : index.samples) {
    for (const StoredFile& file : sample.files) ranges.emplace_back(file.offset, file.length);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].first + ranges[i - 1].second) {
      return fail(Code::kCorrupt, "two files overlap at byte {} of the chunk", ranges[i].first);
    }
  }
  return {};
}

// Decodes an index without its magic, version and CRC.
Result<ChunkIndex> decode_body(Bytes body, uint64_t chunk_bytes) {
  ChunkIndex index;
  Decoder decoder{.in = ByteReader(body), .chunk_bytes = chunk_bytes, .schema = index.schema};
  ASSIGN_OR_RETURN(index.schema, decode_schema(&decoder.in));
  RETURN_IF_ERROR(decoder.decode_suffixes());
  const auto samples = decoder.in.number<uint32_t>();
  if (samples > base::kChunkSamplesMax || samples > decoder.in.remaining() / kSampleBytesMin) {
    return fail(Code::kCorrupt, "{} samples do not fit in the remaining bytes", samples);
  }
  index.samples.reserve(samples);
  for (uint32_t i = 0; i < samples; ++i) {
    auto sample = decoder.decode_sample();
    if (!sample) return tl::unexpected(sample.error().at(fmt::format("sample {}", i)));
    index.samples.push_back(std::move(*sample));
  }
  if (!decoder.in.ok() || decoder.in.remaining() != 0) {
    return fail(Code::kCorrupt, "{} bytes after the last sample", decoder.in.remaining());
  }
  RETURN_IF_ERROR(check_keys_unique(index));
  RETURN_IF_ERROR(check_no_overlap(index));
  return index;
}

}  // namespace

Result<ChunkIndex> decode_chunk_index(Bytes data, uint64_t chunk_bytes) {
  constexpr size_t kFrame = kMagic.size() + 1 + kCrcBytes;
  if (data.size() < kFrame || !base::as_text(data).starts_with(kMagic)) {
    return fail(Code::kCorrupt, "chunk index: its first bytes are not those of a chunk index");
  }
  if (data.size() > base::kChunkIndexBytesMax) {
    return fail(Code::kTooBig, "chunk index: {} bytes, more than {}", data.size(),
                base::kChunkIndexBytesMax);
  }
  const Bytes content = data.first(data.size() - kCrcBytes);
  if (base::crc32c(content) != base::load_le<uint32_t>(data.data() + content.size())) {
    return fail(Code::kCorrupt,
                "chunk index: its checksum does not match: it is damaged or cut off");
  }
  // The version is checked after the checksum, so that a flipped bit counts as damage and not as
  // another version.
  if (const uint8_t version = data[kMagic.size()]; version != kVersion) {
    return fail(Code::kUnsupported,
                "chunk index: format version {}; this Forebay reads version {}: use a newer one",
                version, kVersion);
  }
  auto index = decode_body(content.subspan(kMagic.size() + 1), chunk_bytes);
  if (!index) return tl::unexpected(index.error().at("chunk index"));
  return index;
}

}  // namespace forebay::store
