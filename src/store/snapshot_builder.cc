#include "store/snapshot_builder.h"

#include <algorithm>

#include "base/limits.h"
#include "store/format/schema_codec.h"

namespace forebay::store {

using base::Code;
using base::fail;

Status put_head(io::FileSystem& fs, const std::string& dataset, const base::Sha256& root,
                const std::optional<io::Identity>& before) {
  const std::string path = head_path(dataset);
  const std::string text = encode_head(root);
  io::PutOptions options{.when = io::PutIf::kAbsent};
  if (before) options = {.when = io::PutIf::kUnchanged, .known = *before};
  const Status status = fs.put(path, base::as_bytes(text), options);
  if (status.code() != Code::kExists && status.code() != Code::kChanged) return status;
  // Another run of the same work may have put this HEAD, or this run did and its answer was lost.
  const auto there = fs.read_whole(path, base::kHeadBytesMax);
  if (there && base::as_text(*there) == text) return {};
  return fail(
      Code::kChanged,
      "{}: another process made another snapshot current since this work began, and it is "
      "left as it is; `forebay inspect {}` shows it; begin again from that snapshot, or use "
      "another folder",
      path, dataset);
}

SnapshotBuilder::SnapshotBuilder(io::FileSystem& fs, std::string dataset, Schema schema,
                                 std::optional<io::Identity> head)
    : fs_(fs),
      dataset_(std::move(dataset)),
      root_{.schema = std::move(schema), .parts = {}},
      head_(std::move(head)) {}

Status SnapshotBuilder::check(const ChunkInfo& info, const ChunkIndex& index) const {
  const std::string name = base::to_hex(info.id);
  RETURN_IF_ERROR(check_schema(root_.schema));
  if (index.schema != root_.schema) {
    return fail(Code::kInvalid, "chunk {}: its schema is not the snapshot's", name);
  }
  if (info.samples != index.samples.size() || info.samples == 0 ||
      info.samples > base::kChunkSamplesMax) {
    return fail(Code::kInvalid, "chunk {}: {} samples, {} in its index; 1 to {} are allowed", name,
                info.samples, index.samples.size(), base::kChunkSamplesMax);
  }
  if (info.bytes > base::kChunkBytesMax) {
    return fail(Code::kTooBig, "chunk {}: {} bytes, more than {}", name, info.bytes,
                base::kChunkBytesMax);
  }
  for (const IndexedSample& sample : index.samples) {
    const StoredFile* image = image_file(root_.schema, sample);
    if (image == nullptr || image->length > base::kFieldBytesMax ||
        !base::in_bounds(image->offset, image->length, info.bytes)) {
      return fail(Code::kInvalid, "chunk {}: sample {} has no image inside the chunk", name,
                  sample.key);
    }
    if (sample.key.empty() || sample.key.size() > base::kKeyBytesMax) {
      return fail(Code::kInvalid, "chunk {}: a key of {} bytes; 1 to {} are allowed", name,
                  sample.key.size(), base::kKeyBytesMax);
    }
    const ScalarValue* label = class_value(root_.schema, sample);
    const int64_t* number = label == nullptr ? nullptr : std::get_if<int64_t>(&label->value);
    if (label != nullptr && (number == nullptr || *number < 0 || *number > INT32_MAX)) {
      return fail(Code::kInvalid, "chunk {}: the class of sample {} is not a number from 0 to {}",
                  name, sample.key, INT32_MAX);
    }
  }
  return {};
}

Status SnapshotBuilder::add_chunk(const ChunkInfo& info, const ChunkIndex& index) {
  RETURN_IF_ERROR(check(info, index));
  if (part_.samples() + info.samples > base::kPartSamplesMax) RETURN_IF_ERROR(write_part());
  part_.add_chunk(info.id, info.bytes, info.index_bytes);
  for (const IndexedSample& sample : index.samples) {
    const StoredFile& image = *image_file(root_.schema, sample);
    const Location location{.length = static_cast<uint32_t>(image.length),
                            .offset = image.offset,
                            .crc32c = image.crc32c,
                            .label = static_cast<int32_t>(class_of(root_.schema, sample))};
    part_.add_sample(location, sample.key);
  }
  return {};
}

Status SnapshotBuilder::write_part() {
  if (part_.samples() == 0) return {};
  const PartBuilder::Encoded part = part_.encode();
  part_ = PartBuilder();
  RETURN_IF_ERROR(fs_.put(part_path(dataset_, part.ref.id), part.data));
  root_.parts.push_back(part.ref);
  return {};
}

Result<base::Sha256> SnapshotBuilder::commit() {
  RETURN_IF_ERROR(check_schema(root_.schema));
  RETURN_IF_ERROR(write_part());
  const base::ByteVector root = encode_root(root_);
  const base::Sha256 id = base::sha256(root);
  RETURN_IF_ERROR(fs_.put(root_path(dataset_, id), root));
  RETURN_IF_ERROR(put_head(fs_, dataset_, id, head_));
  return id;
}

}  // namespace forebay::store
