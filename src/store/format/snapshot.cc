#include "store/format/snapshot.h"

#include <algorithm>

#include "base/limits.h"
#include "io/origin.h"
#include "store/format/schema_codec.h"

namespace forebay::store {

using base::ByteReader;
using base::ByteVector;
using base::ByteWriter;
using base::Code;
using base::fail;
using base::Sha256;

namespace {

constexpr std::string_view kRootMagic = "FBROOT";
constexpr std::string_view kPartMagic = "FBPART";
constexpr uint8_t kVersion = 0;
constexpr size_t kCrcBytes = 4;
constexpr size_t kFrameBytes = 8;  // magic and version
constexpr uint64_t kColumnAlignment = 64;
// The preamble, the counts, the file's size, and an offset and a size for each column.
constexpr size_t kPartFixedBytes = kPartPreambleBytes + 4 * 4 + 8 + 16 * kPartColumns;
constexpr size_t kPartRefBytes = 32 + 32 + 4 * 3 + 8;

uint64_t blocks_of(uint64_t bytes) { return (bytes + kPartBlockBytes - 1) / kPartBlockBytes; }
uint64_t align(uint64_t offset) {
  return (offset + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

void encode_frame(std::string_view magic, ByteWriter* out) {
  out->bytes(base::as_bytes(magic));
  out->pad_to(kFrameBytes - 1);
  out->number(kVersion);
}

bool has_magic(Bytes data, std::string_view magic) {
  return data.size() >= kFrameBytes && base::as_text(data).starts_with(magic) && data[6] == 0;
}

Status check_crc(Bytes data, std::string_view what) {
  const Bytes content = data.first(data.size() - kCrcBytes);
  if (base::crc32c(content) == base::load_le<uint32_t>(data.data() + content.size())) return {};
  return fail(Code::kCorrupt, "{}: its checksum does not match: it is damaged or cut off", what);
}

Status check_version(Bytes data, std::string_view what) {
  if (data[kFrameBytes - 1] == kVersion) return {};
  return fail(Code::kUnsupported,
              "{}: format version {}; this Forebay reads version {}: use a newer one", what,
              data[kFrameBytes - 1], kVersion);
}

}  // namespace

// HEAD and paths

std::string encode_head(const Sha256& root) {
  return fmt::format("forebay {} {}\n", kVersion, base::to_hex(root));
}

Result<Sha256> decode_head(std::string_view text) {
  constexpr std::string_view kWord = "forebay ";
  if (!text.starts_with(kWord)) return fail(Code::kCorrupt, "it is not a HEAD file of Forebay");
  text.remove_prefix(kWord.size());
  if (!text.starts_with("0 ")) {
    return fail(Code::kUnsupported, "format version \"{}\"; this Forebay reads version {}",
                text.substr(0, std::min<size_t>(text.find(' '), 16)), kVersion);
  }
  text.remove_prefix(2);
  if (text.size() != 65 || text.back() != '\n') {
    return fail(Code::kCorrupt, "it is not one line with the 64 digits of a snapshot's hash");
  }
  return base::sha256_from_hex(text.substr(0, 64));
}

std::string head_path(const std::string& dataset) { return io::join_path(dataset, "HEAD"); }
std::string chunk_path(const std::string& dataset, const Sha256& id) {
  return io::join_path(dataset, fmt::format("chunks/{}.tar", base::to_hex(id)));
}
std::string part_path(const std::string& dataset, const Sha256& id) {
  return io::join_path(dataset, fmt::format("snapshots/{}.part", base::to_hex(id)));
}
std::string root_path(const std::string& dataset, const Sha256& id) {
  return io::join_path(dataset, fmt::format("snapshots/{}.root", base::to_hex(id)));
}
std::string copy_mark_path(const std::string& dataset) { return io::join_path(dataset, "COPY"); }

// Root

ByteVector encode_root(const SnapshotRoot& root) {
  ByteVector data;
  ByteWriter out(&data);
  encode_frame(kRootMagic, &out);
  encode_schema(root.schema, &out);
  out.number(static_cast<uint32_t>(root.parts.size()));
  for (const PartRef& part : root.parts) {
    out.bytes(part.id);
    out.bytes(part.header);
    out.number(part.header_bytes);
    out.number(part.chunks);
    out.number(part.samples);
    out.number(part.bytes);
  }
  out.number(base::crc32c(data));
  return data;
}

namespace {

Sha256 read_hash(ByteReader* in) {
  Sha256 hash{};
  const Bytes raw = in->bytes(hash.size());
  std::copy(raw.begin(), raw.end(), hash.begin());
  return hash;
}

PartRef decode_part_ref(ByteReader* in) {
  PartRef part;
  part.id = read_hash(in);
  part.header = read_hash(in);
  part.header_bytes = in->number<uint32_t>();
  part.chunks = in->number<uint32_t>();
  part.samples = in->number<uint32_t>();
  part.bytes = in->number<uint64_t>();
  return part;
}

}  // namespace

Result<SnapshotRoot> decode_root(Bytes data) {
  if (!has_magic(data, kRootMagic) || data.size() < kFrameBytes + kCrcBytes) {
    return fail(Code::kCorrupt, "snapshot root: its first bytes are not those of a snapshot root");
  }
  RETURN_IF_ERROR(check_crc(data, "snapshot root"));
  RETURN_IF_ERROR(check_version(data, "snapshot root"));
  ByteReader in(data.subspan(kFrameBytes, data.size() - kFrameBytes - kCrcBytes));
  SnapshotRoot root;
  ASSIGN_OR_RETURN(root.schema, decode_schema(&in));
  const auto parts = in.number<uint32_t>();
  if (!in.ok() || uint64_t{parts} * kPartRefBytes != in.remaining()) {
    return fail(Code::kCorrupt, "snapshot root: {} parts do not fit in {} bytes", parts,
                in.remaining());
  }
  uint64_t samples = 0;
  for (uint32_t i = 0; i < parts; ++i) {
    root.parts.push_back(decode_part_ref(&in));
    const PartRef& part = root.parts.back();
    samples += part.samples;
    if (part.header_bytes < kPartFixedBytes || part.header_bytes > base::kPartHeaderBytesMax ||
        part.header_bytes > part.bytes || part.samples > base::kPartSamplesMax ||
        samples > base::kSamplesMax) {
      return fail(Code::kCorrupt, "snapshot root: part {} has impossible sizes", i);
    }
  }
  return root;
}

// Part header

Result<uint32_t> decode_part_preamble(Bytes preamble) {
  if (preamble.size() < kPartPreambleBytes || !has_magic(preamble, kPartMagic)) {
    return fail(Code::kCorrupt, "snapshot part: its first bytes are not those of a snapshot part");
  }
  const auto header_bytes = base::load_le<uint32_t>(preamble.data() + kFrameBytes);
  if (header_bytes < kPartFixedBytes + kCrcBytes || header_bytes > base::kPartHeaderBytesMax) {
    return fail(Code::kCorrupt, "snapshot part: a header of {} bytes", header_bytes);
  }
  return header_bytes;
}

namespace {

// Returns the sizes of the columns, which follow from the counts, except for the size of the keys.
std::array<uint64_t, kPartColumns> column_bytes(uint64_t chunks, uint64_t samples,
                                                uint64_t offset_bytes, uint64_t key_bytes) {
  return {32 * chunks, 8 * chunks,  8 * chunks,  4 * chunks,        offset_bytes * samples,
          4 * samples, 4 * samples, 4 * samples, 4 * (samples + 1), key_bytes};
}

// Places columns of these sizes after a header, whose length follows from them.
void place_columns(const std::array<uint64_t, kPartColumns>& bytes, PartHeader* header) {
  uint64_t blocks = 0;
  for (size_t i = 0; i < kPartColumns; ++i) {
    header->columns[i].bytes = bytes[i];
    header->columns[i].first_block = static_cast<uint32_t>(blocks);
    blocks += blocks_of(bytes[i]);
  }
  header->header_bytes = static_cast<uint32_t>(kPartFixedBytes + 4 * blocks + kCrcBytes);
  uint64_t at = header->header_bytes;
  for (PartHeader::Column& column : header->columns) {
    column.offset = align(at);
    at = column.offset + column.bytes;
  }
  header->file_bytes = at;
  header->block_crc32c.resize(blocks);
}

ByteVector encode_part_header(const PartHeader& header) {
  ByteVector data;
  ByteWriter out(&data);
  encode_frame(kPartMagic, &out);
  out.number(header.header_bytes);
  out.pad_to(kPartPreambleBytes);
  out.number(header.chunks);
  out.number(header.samples);
  out.number(header.offset_bytes);
  out.number(static_cast<uint32_t>(header.block_crc32c.size()));
  out.number(header.file_bytes);
  for (const PartHeader::Column& column : header.columns) {
    out.number(column.offset);
    out.number(column.bytes);
  }
  for (const uint32_t crc : header.block_crc32c) out.number(crc);
  out.number(base::crc32c(data));
  return data;
}

// Whether two headers place their columns in the same way.
bool columns_match(const PartHeader& a, const PartHeader& b) {
  for (size_t i = 0; i < kPartColumns; ++i) {
    if (a.columns[i].offset != b.columns[i].offset || a.columns[i].bytes != b.columns[i].bytes) {
      return false;
    }
  }
  return a.header_bytes == b.header_bytes && a.file_bytes == b.file_bytes;
}

}  // namespace

Result<PartHeader> decode_part_header(Bytes data) {
  ASSIGN_OR_RETURN(const uint32_t header_bytes, decode_part_preamble(data));
  if (data.size() != header_bytes) {
    return fail(Code::kCorrupt, "snapshot part: a header of {} bytes, but {} were read",
                header_bytes, data.size());
  }
  RETURN_IF_ERROR(check_crc(data, "snapshot part's header"));
  RETURN_IF_ERROR(check_version(data, "snapshot part"));
  ByteReader in(data.subspan(kPartPreambleBytes));
  PartHeader stored{.header_bytes = header_bytes};
  stored.chunks = in.number<uint32_t>();
  stored.samples = in.number<uint32_t>();
  stored.offset_bytes = in.number<uint32_t>();
  const auto blocks = in.number<uint32_t>();
  stored.file_bytes = in.number<uint64_t>();
  for (PartHeader::Column& column : stored.columns) {
    column.offset = in.number<uint64_t>();
    column.bytes = in.number<uint64_t>();
  }
  const uint64_t key_bytes = stored.column(PartColumn::kKeys).bytes;
  if (stored.samples > base::kPartSamplesMax || stored.chunks > stored.samples ||
      (stored.offset_bytes != 4 && stored.offset_bytes != 8) ||
      key_bytes > uint64_t{stored.samples} * base::kKeyBytesMax) {
    return fail(Code::kCorrupt, "snapshot part: impossible counts ({} chunks, {} samples)",
                stored.chunks, stored.samples);
  }
  PartHeader header = stored;
  place_columns(column_bytes(header.chunks, header.samples, header.offset_bytes, key_bytes),
                &header);
  if (!columns_match(header, stored) || blocks != header.block_crc32c.size()) {
    return fail(Code::kCorrupt, "snapshot part: its columns do not follow each other as they must");
  }
  for (uint32_t& crc : header.block_crc32c) crc = in.number<uint32_t>();
  return header;
}

Status check_blocks(const PartHeader& header, PartColumn which, uint64_t first_byte, Bytes blocks) {
  const PartHeader::Column& column = header.column(which);
  size_t block = column.first_block + first_byte / kPartBlockBytes;
  uint64_t end = column.offset + first_byte;
  for (; !blocks.empty(); ++block) {
    const Bytes piece = blocks.first(std::min<uint64_t>(blocks.size(), kPartBlockBytes));
    end += piece.size();
    if (base::crc32c(piece) != header.block_crc32c[block]) {
      return fail(Code::kCorrupt,
                  "damaged in the {} bytes before byte {}: their checksum does not match; copy it "
                  "again",
                  piece.size(), end);
    }
    blocks = blocks.subspan(piece.size());
  }
  return {};
}

uint64_t part_head_bytes(const PartRef& ref) {
  uint64_t at = ref.header_bytes;
  for (const uint64_t bytes : {32u, 8u, 8u, 4u}) at = align(at) + bytes * ref.chunks;
  return align(at);
}

// Part

void PartBuilder::add_chunk(const Sha256& id, uint64_t bytes, uint64_t index_bytes) {
  chunk_id_.push_back(id);
  chunk_bytes_.push_back(bytes);
  chunk_index_bytes_.push_back(index_bytes);
  chunk_samples_.push_back(0);
}

void PartBuilder::add_sample(const Location& location, std::string_view key) {
  ++chunk_samples_.back();
  offset_.push_back(location.offset);
  length_.push_back(location.length);
  crc32c_.push_back(location.crc32c.value());
  label_.push_back(location.label);
  key_offset_.push_back(static_cast<uint32_t>(keys_.size()));
  ByteWriter(&keys_).bytes(base::as_bytes(key));
}

namespace {

template <class To, class From>
ByteVector encode_column(const std::vector<From>& values) {
  ByteVector data(values.size() * sizeof(To));
  uint8_t* to = data.data();
  for (const From& value : values) {
    base::store_le(to, static_cast<To>(value));
    to += sizeof(To);
  }
  return data;
}

}  // namespace

std::array<ByteVector, kPartColumns> PartBuilder::encode_columns() const {
  const bool wide = std::any_of(chunk_bytes_.begin(), chunk_bytes_.end(),
                                [](uint64_t bytes) { return bytes > UINT32_MAX; });
  std::vector<uint32_t> key_offset = key_offset_;
  key_offset.push_back(static_cast<uint32_t>(keys_.size()));
  return {encode_column<Sha256>(chunk_id_),
          encode_column<uint64_t>(chunk_bytes_),
          encode_column<uint64_t>(chunk_index_bytes_),
          encode_column<uint32_t>(chunk_samples_),
          wide ? encode_column<uint64_t>(offset_) : encode_column<uint32_t>(offset_),
          encode_column<uint32_t>(length_),
          encode_column<uint32_t>(crc32c_),
          encode_column<int32_t>(label_),
          encode_column<uint32_t>(key_offset),
          keys_};
}

PartBuilder::Encoded PartBuilder::encode() const {
  const auto columns = encode_columns();
  PartHeader header{.chunks = static_cast<uint32_t>(chunk_id_.size()), .samples = samples()};
  const size_t offset_column_bytes = columns[static_cast<size_t>(PartColumn::kOffset)].size();
  header.offset_bytes = offset_column_bytes > size_t{4} * samples() ? 8 : 4;
  place_columns(column_bytes(header.chunks, header.samples, header.offset_bytes, keys_.size()),
                &header);
  Encoded part;
  part.data.resize(header.file_bytes);
  size_t block = 0;
  for (size_t i = 0; i < kPartColumns; ++i) {
    std::copy(columns[i].begin(), columns[i].end(),
              part.data.begin() + static_cast<ptrdiff_t>(header.columns[i].offset));
    for (Bytes left = columns[i]; !left.empty(); ++block) {
      const Bytes piece = left.first(std::min<uint64_t>(left.size(), kPartBlockBytes));
      header.block_crc32c[block] = base::crc32c(piece);
      left = left.subspan(piece.size());
    }
  }
  const ByteVector head = encode_part_header(header);
  std::copy(head.begin(), head.end(), part.data.begin());
  part.ref = {.id = base::sha256(part.data),
              .header = base::sha256(head),
              .header_bytes = header.header_bytes,
              .chunks = header.chunks,
              .samples = header.samples,
              .bytes = header.file_bytes};
  return part;
}

}  // namespace forebay::store
