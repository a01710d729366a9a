#include "store/snapshot_part.h"

#include <algorithm>

#include "base/limits.h"
#include "store/kept.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

Result<std::unique_ptr<Part>> Part::open(const io::Origin& origin, const std::string& path,
                                         const PartRef& ref, const PartOptions& options) {
  std::unique_ptr<Part> part(new Part());
  ASSIGN_OR_RETURN(part->file_, origin.open(path, {.known = io::Identity{.size = ref.bytes}}));
  part->is_remote_ = origin.is_remote(path);
  const uint64_t bytes = part->file_->identity().size;
  if (bytes != ref.bytes) {
    return fail(Code::kCorrupt,
                "{}: {} bytes, but the snapshot's root says {}: cut off or another file; copy it "
                "again",
                path, bytes, ref.bytes);
  }
  const auto read = [&]() -> Result<ByteVector> {
    ByteVector head(std::min(part_head_bytes(ref), bytes));
    RETURN_IF_ERROR(part->file_->read(0, head));
    return head;
  };
  const auto decode = [&](Bytes head) -> Result<bool> {
    RETURN_IF_ERROR(part->decode_head(head, ref));
    return true;
  };
  RETURN_IF_ERROR(
      kept_or_read(options.kept, kept_name(ref.id, kKeptHead), part->is_remote_, read, decode));
  part->columns_ = std::make_unique<SampleColumns>(SampleColumns::Source{.header = part->header_,
                                                                         .chunks = part->chunks_,
                                                                         .file = *part->file_,
                                                                         .id = ref.id,
                                                                         .kept = options.kept});
  if (options.reads_samples) RETURN_IF_ERROR(part->columns_->read_all());
  return part;
}

// `head`: the bytes of the header and the chunk table.
Status Part::decode_head(Bytes head, const PartRef& ref) {
  const std::string& path = file_->path();
  const Bytes header = head.first(std::min<uint64_t>(ref.header_bytes, head.size()));
  if (base::sha256(header) != ref.header) {
    return fail(Code::kCorrupt, "{}: its header is damaged, or that of another part; copy it again",
                path);
  }
  auto decoded = decode_part_header(header);
  if (!decoded) return decoded.error().at(path);
  header_ = std::move(*decoded);
  if (header_.file_bytes != ref.bytes || header_.samples != ref.samples ||
      header_.chunks != ref.chunks || header_.column(PartColumn::kOffset).offset != head.size()) {
    return fail(Code::kCorrupt, "{}: its header does not match the snapshot's root", path);
  }
  for (auto which = PartColumn::kChunkId; which < PartColumn::kOffset;
       which = static_cast<PartColumn>(static_cast<int>(which) + 1)) {
    const PartHeader::Column& column = header_.column(which);
    const Bytes bytes = head.subspan(column.offset, column.bytes);
    RETURN_IF_ERROR(check_blocks(header_, which, 0, bytes).at(path));
  }
  return decode_chunks(head);
}

Status Part::decode_chunks(Bytes head) {
  const auto value = [&](PartColumn column, uint64_t at) {
    return head.data() + header_.column(column).offset + at;
  };
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

// Returns bytes [begin, end) of a column. Reads and checks whole blocks.
Result<ByteVector> Part::read_range(PartColumn which, uint64_t begin, uint64_t end,
                                    const io::ReadOptions& options) const {
  const PartHeader::Column& column = header_.column(which);
  FOREBAY_CHECK(begin <= end && end <= column.bytes);
  const uint64_t first = begin / kPartBlockBytes * kPartBlockBytes;
  const uint64_t last = (end + kPartBlockBytes - 1) / kPartBlockBytes * kPartBlockBytes;
  ByteVector blocks(std::min(last, column.bytes) - first);
  const Status status = with_second_read(is_remote_, [&]() -> Status {
    RETURN_IF_ERROR(file_->read(column.offset + first, blocks, options));
    return check_blocks(header_, which, first, blocks).at(file_->path());
  });
  RETURN_IF_ERROR(status);
  blocks.resize(end - first);
  blocks.erase(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(begin - first));
  return blocks;
}

// Returns the offsets at which the keys [begin, end) begin, and that at which the last one ends.
// They are checked: they ascend and lie inside the column of keys.
Result<std::vector<uint32_t>> Part::key_offsets(uint32_t begin, uint32_t end,
                                                const io::ReadOptions& options) const {
  ASSIGN_OR_RETURN(const ByteVector raw, read_range(PartColumn::kKeyOffset, 4 * uint64_t{begin},
                                                    4 * (uint64_t{end} + 1), options));
  std::vector<uint32_t> offsets(size_t{end} - begin + 1);
  std::memcpy(offsets.data(), raw.data(), raw.size());
  bool valid = offsets.back() <= header_.column(PartColumn::kKeys).bytes;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    valid =
        valid && offsets[i] < offsets[i + 1] && offsets[i + 1] - offsets[i] <= base::kKeyBytesMax;
  }
  if (!valid) {
    return fail(Code::kCorrupt, "{}: the offsets of the keys of samples {} to {} are malformed",
                file_->path(), begin, end);
  }
  return offsets;
}

Result<std::string> Part::key(uint32_t sample, const io::ReadOptions& options) const {
  ASSIGN_OR_RETURN(const auto offsets, key_offsets(sample, sample + 1, options));
  ASSIGN_OR_RETURN(const ByteVector key,
                   read_range(PartColumn::kKeys, offsets[0], offsets[1], options));
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
