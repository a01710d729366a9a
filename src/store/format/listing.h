// What a source of samples holds, as it was listed: names and sizes, never contents. These are
// plain values with an encoding, by which a pack that goes on tells whether its source is the same.
// The code that lists is in store/source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "store/format/schema.h"

namespace forebay::store {

using base::Bytes;

// Instead of a shard's number: the file is one of Listing::texts, whose number is its offset.
inline constexpr uint32_t kNoShard = UINT32_MAX;

// A file of a sample, before it is read. The image of a folder source is in no shard.
struct SourceFile {
  std::string suffix;   // in the chunk's tar, in lower case: "jpg", "seg.png"
  uint16_t field = 0;   // its number in the listing's schema
  uint32_t shard = 0;   // the number of its shard in the listing, or kNoShard
  uint64_t offset = 0;  // where it begins in the shard
  uint64_t length = 0;
  bool operator==(const SourceFile&) const = default;
};

struct SourceSample {
  std::string key;
  // The path of its image below the folder, or the name of its member in its shard, with the
  // shard's own name before it where keys have it.
  std::string source_path;
  // The class by the sample's folder. What a .cls file says is here only where the source was
  // listed with ListOptions::read_classes; pack reads it later, with the sample's files.
  int64_t label = -1;
  int64_t modified_ns = 0;
  std::vector<SourceFile> files;
  bool operator==(const SourceSample&) const = default;
};

struct SourceShard {
  std::string path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
};

// Something of the source that is not in the dataset, or a file that was kept as it was.
struct Remark {
  std::string path;
  std::string reason;
  bool operator==(const Remark&) const = default;
};

// A sample whose .cls file holds no class.
struct BadClass {
  uint64_t sample = 0;  // its number in the listing
  std::string reason;
};

// A folder that was listed.
struct SourceFolder {
  std::string path;  // below the root
  // Read before the folder was listed: a file that comes or goes later changes this time.
  int64_t modified_ns = 0;
  bool operator==(const SourceFolder&) const = default;
};

// Indexes store these values, so they never change.
enum class SourceKind : uint8_t { kFolder = 0, kWebDataset = 1 };

struct Listing {
  SourceKind kind = SourceKind::kFolder;
  std::string root;                   // the root of a folder source
  std::vector<SourceFolder> folders;  // all folders below the root of a folder source
  // After the source's own: the masks that lie beside it, or the shards that hold them.
  std::vector<SourceShard> shards;
  Schema schema;
  std::vector<SourceSample> samples;
  // Contents that are in memory: annotations, and the hash of the file that they came from.
  std::vector<std::string> texts;
  std::optional<base::Sha256> annotations;
  std::vector<Remark> refused;        // samples that are not regular files or have no image
  std::vector<Remark> remarks;        // shards that were taken although they may lack something
  std::vector<Remark> left_out;       // folders beside shards
  std::vector<Remark> bad_shards;     // with OnBadShard::kNote: why a shard was not read to its end
  std::vector<BadClass> bad_classes;  // with ListOptions::read_classes
  uint64_t ignored = 0;               // number of files whose names are not those of images
};

// Encodes everything that decides what a pack writes: kinds, names, sizes and times of change, but
// not where the source lies. Equal sources have equal encodings.
base::ByteVector encode_listing(const Listing& listing);

// Says in words what differs first between a stored encoding and the listing of today.
std::string first_difference(Bytes stored, const Listing& listing);

// Whether a path inside an archive is absolute or has a component "..".
bool leads_out(std::string_view name);

}  // namespace forebay::store
