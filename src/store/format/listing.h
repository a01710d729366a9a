// The listing of a source of samples: names and sizes, never contents. These are plain values. A
// pack that resumes compares their encoding to tell whether its source is still the same. The code
// that lists is in store/source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "store/format/schema.h"

namespace forebay::store {

using base::Bytes;

// Stands for a shard's number if the file is one of Listing::texts; SourceFile::offset is then its
// number there.
inline constexpr uint32_t kNoShard = UINT32_MAX;

// A file of a sample, before it is read. For the image of a folder source, `shard` has no meaning.
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
  // The image's path below the folder, or its member name in its shard. If keys begin with the
  // shard's name, this does too.
  std::string source_path;
  // The class by the sample's folder. The class in a .cls file is here only if the source was
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

// A note about one file, sample, folder or shard of the source, such as why it was left out.
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
  // Read before the folder is listed: a file that is added or removed later changes this time.
  int64_t modified_ns = 0;
  bool operator==(const SourceFolder&) const = default;
};

// Indexes store these values, so they never change.
enum class SourceKind : uint8_t { kFolder = 0, kWebDataset = 1 };

struct Listing {
  SourceKind kind = SourceKind::kFolder;
  std::string root;                   // the root of a folder source
  std::vector<SourceFolder> folders;  // all folders below the root of a folder source
  // The source's own shards, then the mask files of `pack --masks`, or the shards that hold them.
  std::vector<SourceShard> shards;
  Schema schema;
  std::vector<SourceSample> samples;
  // The samples' annotations of `pack --annotations`, and the hash of the file that has them.
  std::vector<std::string> texts;
  std::optional<base::Sha256> annotations;
  std::optional<base::Sha256> labels;  // the hash of the table of `pack --labels`
  std::vector<Remark> refused;         // samples that are not regular files or have no image
  std::vector<Remark> remarks;     // shards that may lack samples, annotations that match nothing
  std::vector<Remark> left_out;    // what may be data, one for each reason
  std::vector<Remark> hidden;      // hidden files and folders, one for each reason
  std::vector<Remark> bad_shards;  // with OnBadShard::kNote: shards that were not read to the end
  std::vector<BadClass> bad_classes;   // with ListOptions::read_classes
  bool has_classes_of_shards = false;  // each shard is a class (source/shard_names.h)
  uint64_t ignored = 0;                // number of files whose names are not those of images
};

// Says where the classes of a listing with has_classes_of_shards come from.
inline constexpr std::string_view kClassesOfShards =
    "each shard is a class, because the name of every image begins with that of its shard, like in "
    "ImageNet's own tars";

// Encodes everything that decides what a pack writes: kinds, names, sizes and times of change, but
// not where the source lies. Equal sources have equal encodings.
base::ByteVector encode_listing(const Listing& listing);

// Describes the first difference between a stored encoding and the present listing, for messages.
std::string first_difference(Bytes stored, const Listing& listing);

// Whether a path inside an archive is absolute or has a component "..".
bool leads_out(std::string_view name);

}  // namespace forebay::store
