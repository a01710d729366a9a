#include "store/snapshot_part.h"

#include <algorithm>

#include "base/limits.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

Result<Part> Part::open(const io::Origin& origin, const std::string& path, const PartRef& ref) {
  Part part;
  ASSIGN_OR_RETURN(part.file_, origin.open(path));
  const uint64_t bytes = part.file_->identity().size;
  if (bytes != ref.bytes) {
    return fail(Code::kCorrupt,
                "{}: {} bytes where the snapshot's root says {}: cut off or another "
                "file; copy it again",
                path, bytes, ref.bytes);
  }
  ByteVector header(ref.header_bytes);
  RETURN_IF_ERROR(part.file_->read(0, header));
  if (base::sha256(header) != ref.header) {
    return fail(Code::kCorrupt, "{}: its header is damaged or another part's; copy it again", path);
  }
  auto decoded = decode_part_header(header);
  if (!decoded) return tl::unexpected(decoded.error().at(path));
  part.header_ = std::move(*decoded);
  if (part.header_.file_bytes != bytes || part.header_.samples != ref.samples ||
      part.header_.chunks != ref.chunks) {
    return fail(Code::kCorrupt, "{}: its header does not say what the snapshot's root says", path);
  }
  RETURN_IF_ERROR(part.read_columns());
  RETURN_IF_ERROR(part.decode_chunks());
  RETURN_IF_ERROR(part.check_locations());
  return part;
}

// `blocks` are the column's bytes from `first_byte`, a multiple of the block's size, up to a
// block's end or the column's.
Status Part::check_blocks(PartColumn which, uint64_t first_byte, Bytes blocks) const {
  const PartHeader::Column& column = header_.column(which);
  size_t block = column.first_block + first_byte / kPartBlockBytes;
  for (; !blocks.empty(); ++block) {
    const Bytes piece = blocks.first(std::min<uint64_t>(blocks.size(), kPartBlockBytes));
    if (base::crc32c(piece) != header_.block_crc32c[block]) {
      return fail(Code::kCorrupt,
                  "{}: damaged in the {} bytes before byte {}: their checksum does not match; copy "
                  "it again",
                  file_->path(), piece.size(),
                  column.offset + column.bytes - (blocks.size() - piece.size()));
    }
    blocks = blocks.subspan(piece.size());
  }
  return {};
}

Status Part::read_columns() {
  const uint64_t begin = header_.columns[0].offset;
  columns_.resize(header_.column(kFirstLazyColumn).offset - begin);
  RETURN_IF_ERROR(file_->read(begin, columns_));
  for (size_t i = 0; i < static_cast<size_t>(kFirstLazyColumn); ++i) {
    const PartHeader::Column& column = header_.columns[i];
    const Bytes bytes = Bytes(columns_).subspan(column.offset - begin, column.bytes);
    RETURN_IF_ERROR(check_blocks(static_cast<PartColumn>(i), 0, bytes));
  }
  return {};
}

const uint8_t* Part::value(PartColumn column, uint64_t at) const {
  return columns_.data() + (header_.column(column).offset - header_.columns[0].offset) + at;
}

Status Part::decode_chunks() {
  uint64_t samples = 0;
  chunks_.resize(header_.chunks);
  for (uint64_t i = 0; i < chunks_.size(); ++i) {
    ChunkInfo& chunk = chunks_[i];
    chunk.id = base::load_le<base::Sha256>(value(PartColumn::kChunkId, 32 * i));
    chunk.bytes = base::load_le<uint64_t>(value(PartColumn::kChunkBytes, 8 * i));
    chunk.index_bytes = base::load_le<uint64_t>(value(PartColumn::kChunkIndexBytes, 8 * i));
    chunk.samples = base::load_le<uint32_t>(value(PartColumn::kChunkSamples, 4 * i));
    chunk.first_sample = samples;
    samples += chunk.samples;
    if (chunk.samples == 0 || chunk.samples > base::kChunkSamplesMax ||
        chunk.bytes > base::kChunkBytesMax || chunk.index_bytes > chunk.bytes) {
      return fail(Code::kCorrupt, "{}: chunk {} has impossible sizes", file_->path(), i);
    }
  }
  if (samples != header_.samples) {
    return fail(Code::kCorrupt, "{}: its chunks have {} samples, its header says {}", file_->path(),
                samples, header_.samples);
  }
  return {};
}

// Makes sure that location() can be believed.
Status Part::check_locations() const {
  for (const ChunkInfo& chunk : chunks_) {
    const auto first = static_cast<uint32_t>(chunk.first_sample);
    for (uint32_t i = first; i < first + chunk.samples; ++i) {
      const Location found = location(i);
      if (!base::in_bounds(found.offset, found.length, chunk.bytes) ||
          found.length > base::kFieldBytesMax || found.label < -1) {
        return fail(
            Code::kCorrupt,
            "{}: sample {} of {} bytes lies outside its chunk, is above the limit of {}, or "
            "has class {}",
            file_->path(), i, found.length, base::kFieldBytesMax, found.label);
      }
    }
  }
  return {};
}

Location Part::location(uint32_t sample) const {
  const uint64_t i = sample;
  Location found;
  found.offset = header_.offset_bytes == 4
                     ? base::load_le<uint32_t>(value(PartColumn::kOffset, 4 * i))
                     : base::load_le<uint64_t>(value(PartColumn::kOffset, 8 * i));
  found.length = base::load_le<uint32_t>(value(PartColumn::kLength, 4 * i));
  found.crc32c = base::load_le<uint32_t>(value(PartColumn::kCrc32c, 4 * i));
  found.label = base::load_le<int32_t>(value(PartColumn::kLabel, 4 * i));
  return found;
}

// Gives bytes [begin, end) of a column. Whole blocks are read and checked.
Result<ByteVector> Part::read_range(PartColumn which, uint64_t begin, uint64_t end) const {
  const PartHeader::Column& column = header_.column(which);
  FOREBAY_CHECK(begin <= end && end <= column.bytes);
  const uint64_t first = begin / kPartBlockBytes * kPartBlockBytes;
  const uint64_t last = (end + kPartBlockBytes - 1) / kPartBlockBytes * kPartBlockBytes;
  ByteVector blocks(std::min(last, column.bytes) - first);
  RETURN_IF_ERROR(file_->read(column.offset + first, blocks));
  RETURN_IF_ERROR(check_blocks(which, first, blocks));
  blocks.resize(end - first);
  blocks.erase(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(begin - first));
  return blocks;
}

// Gives where the keys [begin, end) begin and where the last one ends. The offsets ascend and lie
// inside the keys.
Result<std::vector<uint32_t>> Part::key_offsets(uint32_t begin, uint32_t end) const {
  ASSIGN_OR_RETURN(const ByteVector raw, read_range(PartColumn::kKeyOffset, 4 * uint64_t{begin},
                                                    4 * (uint64_t{end} + 1)));
  std::vector<uint32_t> offsets(size_t{end} - begin + 1);
  std::memcpy(offsets.data(), raw.data(), raw.size());
  bool valid = offsets.back() <= header_.column(PartColumn::kKeys).bytes;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    valid =
        valid && offsets[i] < offsets[i + 1] && offsets[i + 1] - offsets[i] <= base::kKeyBytesMax;
  }
  if (!valid) {
    return fail(Code::kCorrupt, "{}: the keys of samples {} to {} do not lie in order",
                file_->path(), begin, end);
  }
  return offsets;
}

Result<std::string> Part::key(uint32_t sample) const {
  ASSIGN_OR_RETURN(const auto offsets, key_offsets(sample, sample + 1));
  ASSIGN_OR_RETURN(const ByteVector key, read_range(PartColumn::kKeys, offsets[0], offsets[1]));
  return std::string(base::as_text(key));
}

Result<std::vector<std::string>> Part::keys(uint32_t begin, uint32_t end) const {
  ASSIGN_OR_RETURN(const auto offsets, key_offsets(begin, end));
  ASSIGN_OR_RETURN(const ByteVector text,
                   read_range(PartColumn::kKeys, offsets.front(), offsets.back()));
  std::vector<std::string> keys;
  keys.reserve(end - begin);
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    keys.emplace_back(
        base::as_text(text).substr(offsets[i] - offsets[0], offsets[i + 1] - offsets[i]));
  }
  return keys;
}

Result<std::optional<uint32_t>> Part::find(std::string_view key) const {
  // One block of offsets is read at a time; its keys have at most 64 MB.
  constexpr uint32_t kStep = kPartBlockBytes / 4;
  for (uint32_t begin = 0; begin < header_.samples; begin += kStep) {
    const uint32_t end = std::min(header_.samples, begin + kStep);
    ASSIGN_OR_RETURN(const auto offsets, key_offsets(begin, end));
    ASSIGN_OR_RETURN(const ByteVector keys,
                     read_range(PartColumn::kKeys, offsets.front(), offsets.back()));
    const std::string_view text = base::as_text(keys);
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const uint32_t length = offsets[i + 1] - offsets[i];
      if (text.substr(offsets[i] - offsets[0], length) == key) {
        return begin + static_cast<uint32_t>(i);
      }
    }
  }
  return std::nullopt;
}

}  // namespace forebay::store
