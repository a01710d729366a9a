// The first entry of a chunk, `__forebay__`: what the chunk holds and where. A pure codec, bytes
// to structs and back. Grammar: docs/format.md, "chunk index".
#pragma once

#include <optional>
#include <variant>

#include "jpeg/restart_index.h"
#include "store/schema.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

inline constexpr std::string_view kChunkIndexName = "__forebay__";

// A file of a sample inside the chunk.
struct StoredFile {
  uint16_t field = 0;  // number in the schema
  // What follows the key and a dot in the tar member's name: "jpg", "seg.png".
  std::string suffix;
  uint64_t offset = 0;  // of the file's first byte in the chunk
  uint64_t length = 0;
  uint32_t crc32c = 0;
  uint32_t width = 0;  // images: pixels; 0 when unknown
  uint32_t height = 0;
  jpeg::Subsampling subsampling = jpeg::Subsampling::kUnknown;
  // Of a rewritten JPEG with or without restart markers; empty for files kept as they were.
  std::optional<jpeg::RestartIndex> restart = std::nullopt;
  bool operator==(const StoredFile&) const = default;
};

// A value that lives in the index: a class number or a text.
struct ScalarValue {
  uint16_t field = 0;
  std::variant<int64_t, std::string> value;
  bool operator==(const ScalarValue&) const = default;
};

struct IndexedSample {
  std::string key;          // unique in the dataset, as WebDataset forms it: "train/dog/0001"
  std::string source_path;  // where the source had its image: "train/dog/0001.JPEG"
  std::vector<StoredFile> files = {};
  std::vector<ScalarValue> scalars = {};
  bool operator==(const IndexedSample&) const = default;
};

struct ChunkIndex {
  Schema schema;
  std::vector<IndexedSample> samples;
  bool operator==(const ChunkIndex&) const = default;
};

// The image among a sample's files: that of the first field of kind kImage; null without one.
const StoredFile* image_file(const Schema& schema, const IndexedSample& sample);
// The value of the first field of kind kClass; null without one.
const ScalarValue* class_value(const Schema& schema, const IndexedSample& sample);
// Its number; -1 without one.
int64_t class_of(const Schema& schema, const IndexedSample& sample);

// How many bytes it gives does not depend on offsets, checksums, widths and heights: where the
// first file begins follows from an encoding with zeros in their place.
base::ByteVector encode_chunk_index(const ChunkIndex& index);

// Refuses (kCorrupt) what does not check, overlaps, or lies outside a chunk of `chunk_bytes`.
Result<ChunkIndex> decode_chunk_index(Bytes data, uint64_t chunk_bytes);

}  // namespace forebay::store
