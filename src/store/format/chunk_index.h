// The index of a chunk, its first entry `__forebay__`: what the chunk holds and where. This is a
// pure codec between bytes and structs. Grammar: docs/format.md, "chunk index".
#pragma once

#include <optional>
#include <variant>

#include "jpeg/format/restart_index.h"
#include "store/format/schema.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

inline constexpr std::string_view kChunkIndexName = "__forebay__";

// A file of a sample inside the chunk.
struct StoredFile {
  uint16_t field = 0;  // number in the schema
  // The part of the tar member's name after the key and a dot: "jpg", "seg.png".
  std::string suffix;
  uint64_t offset = 0;  // where the file begins in the chunk
  uint64_t length = 0;
  uint32_t crc32c = 0;
  uint32_t width = 0;  // of an image, in pixels; 0 if unknown
  uint32_t height = 0;
  jpeg::Subsampling subsampling = jpeg::Subsampling::kUnknown;
  // Present for every rewritten JPEG, with or without restart markers; empty for files that pack
  // stored unchanged.
  std::optional<jpeg::RestartIndex> restart = std::nullopt;
  bool operator==(const StoredFile&) const = default;
};

// A value that is stored in the index: a class number or a text.
struct ScalarValue {
  uint16_t field = 0;
  std::variant<int64_t, std::string> value;
  bool operator==(const ScalarValue&) const = default;
};

struct IndexedSample {
  std::string key;          // unique in the dataset, in WebDataset's form: "train/dog/0001"
  std::string source_path;  // the image's path in the source: "train/dog/0001.JPEG"
  std::vector<StoredFile> files = {};
  std::vector<ScalarValue> scalars = {};
  bool operator==(const IndexedSample&) const = default;
};

struct ChunkIndex {
  Schema schema;
  std::vector<IndexedSample> samples;
  bool operator==(const ChunkIndex&) const = default;
};

// Returns the sample's image: its file in the first field of kind kImage; null if it has none.
const StoredFile* image_file(const Schema& schema, const IndexedSample& sample);
// Returns the sample's value of the first field of kind kClass; null if it has none.
const ScalarValue* class_value(const Schema& schema, const IndexedSample& sample);
// Returns the sample's class number; -1 if it has none.
int64_t class_of(const Schema& schema, const IndexedSample& sample);

// The size of the encoding does not depend on offsets, checksums, widths and heights. So an
// encoding with zeros in their place tells where the first file will begin.
base::ByteVector encode_chunk_index(const ChunkIndex& index);

// Errors: kCorrupt (the checksum does not match, files overlap or lie outside a chunk of
// `chunk_bytes`, …), kTooBig, kUnsupported (another version).
Result<ChunkIndex> decode_chunk_index(Bytes data, uint64_t chunk_bytes);

}  // namespace forebay::store
