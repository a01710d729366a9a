// The index of data in place: names, classes and locations of images that are used without packing,
// and times and sizes that tell whether the index is up to date. This is a pure codec between bytes
// and structs; source/index_file.h makes, stores and checks indexes. Grammar: docs/format.md,
// "index of data in place".
#pragma once

#include "base/checksum.h"
#include "base/status.h"
#include "store/format/listing.h"

namespace forebay::store {

using base::Result;
using base::Status;

// A shard's state when it was listed.
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
  uint64_t name_at = 0;  // position in InPlaceIndex::names of the key; the rest of the path follows
  uint32_t length = 0;   // in bytes; UINT32_MAX stands for this and any larger length
  uint32_t crc32c = 0;   // only if InPlaceIndex::has_checksums
  int32_t label = -1;    // class number; -1 if there is none
  uint16_t key_bytes = 0;
  uint16_t path_common = 0;  // how many of its first bytes the path shares with the key
  uint16_t path_rest = 0;    // how many bytes the path has after these
  bool operator==(const InPlaceSample&) const = default;
};

// Samples have the order of list_places(): the samples of one shard together, in the order of the
// shards. Samples are compact, because there may be a hundred million.
struct InPlaceIndex {
  SourceKind kind = SourceKind::kFolder;
  bool has_checksums = false;
  Schema schema;
  std::vector<std::string> notes;     // messages for the user about samples that are left out
  std::vector<SourceFolder> folders;  // kFolder
  std::vector<InPlaceShard> shards;   // kWebDataset
  std::vector<InPlaceSample> samples;
  std::string names;
  // A hash of keys, labels, sizes, and locations in shards. It does not depend on where the data
  // is stored.
  base::Sha256 fingerprint{};
  bool operator==(const InPlaceIndex&) const = default;

  // Appends a sample; names have at most base::kKeyBytesMax and kSourcePathBytesMax bytes.
  void add(std::string_view key, std::string_view path, InPlaceSample sample);
  std::string_view key(uint64_t sample) const;
  // The path of a file below the data's folder, or of a member in its shard.
  std::string path(uint64_t sample) const;
};

base::ByteVector encode_in_place_index(const InPlaceIndex& index);

// Errors: kCorrupt (the checksum does not match, a path leads out of the folder, images of a shard
// overlap or lie outside it, …), kTooBig, kUnsupported (another version).
Result<InPlaceIndex> decode_in_place_index(Bytes data);

}  // namespace forebay::store
