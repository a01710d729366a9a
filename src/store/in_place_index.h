// The index of data in place: names, classes and places of images that are used where they lie, and
// by what it is told whether it still holds. A pure codec, bytes to structs and back; who makes,
// stores and checks it: indexing.h. Grammar: docs/format.md, "index of data in place".
#pragma once

#include "store/source.h"

namespace forebay::store {

// A shard as it was when it was listed.
struct InPlaceShard {
  std::string path;  // below the data's folder
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  uint32_t samples = 0;
  bool operator==(const InPlaceShard&) const = default;
};

// An image: a range of its shard, or a whole file of a folder.
struct InPlaceSample {
  uint64_t offset = 0;   // in its shard
  uint64_t name_at = 0;  // in InPlaceIndex::names: the key, then the path's end
  uint32_t length = 0;   // UINT32_MAX: that or more
  uint32_t crc32c = 0;   // where the index has checksums
  int32_t label = -1;    // class number; -1 without one
  uint16_t key_bytes = 0;
  uint16_t path_common = 0;  // bytes with which the path begins as the key does
  uint16_t path_rest = 0;
  bool operator==(const InPlaceSample&) const = default;
};

// Samples stand in the order of list_places(); those of a shard one behind the other, in the order
// of the shards. Compact, because there may be a hundred million.
struct InPlaceIndex {
  SourceKind kind = SourceKind::kFolder;
  bool has_checksums = false;
  Schema schema;
  std::vector<std::string> notes;     // for whoever opens it: what is left out
  std::vector<SourceFolder> folders;  // kFolder
  std::vector<InPlaceShard> shards;   // kWebDataset
  std::vector<InPlaceSample> samples;
  std::string names;
  base::Sha256 fingerprint{};  // of keys, classes, sizes and places; not of where the data lies
  bool operator==(const InPlaceIndex&) const = default;

  // Appends a sample; names have at most base::kKeyBytesMax and kSourcePathBytesMax bytes.
  void add(std::string_view key, std::string_view path, InPlaceSample sample);
  std::string_view key(uint64_t sample) const;
  // Of a file below the data's folder, or of a member in its shard.
  std::string path(uint64_t sample) const;
};

base::ByteVector encode_in_place_index(const InPlaceIndex& index);

// Errors: kCorrupt (does not check, a path that leads out of the folder, images of a shard that
// overlap or lie outside it, …), kTooBig, kUnsupported (another version).
Result<InPlaceIndex> decode_in_place_index(Bytes data);

}  // namespace forebay::store
