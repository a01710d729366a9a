// Makes the index of data in place, stores it in the data's folder, and tells whether a stored
// index is up to date. The codec is format/in_place_index.h; see docs/format.md, "index of data in
// place".
#pragma once

#include <functional>

#include "io/file_system.h"
#include "store/format/in_place_index.h"
#include "store/source/source.h"

namespace forebay::store {

struct IndexOptions {
  bool checksums = false;  // whether to read every image and store its CRC32C
  int threads = 0;         // threads that read; 0 means io::usable_cores()
  std::function<void(uint64_t done, uint64_t samples)> progress = {};  // one thread at a time
};

struct IndexReport {
  std::string path;  // the path of the index
  uint64_t samples = 0;
  uint64_t files = 0;  // files of images, or shards
  uint64_t image_bytes = 0;
  uint64_t index_bytes = 0;
  // What is left out, shards that may lack samples, and a note that changes of an object store's
  // folders go unnoticed.
  std::vector<Remark> remarks;
};

// Lists `source` like list_source() and writes its index atomically. Errors: those of
// list_source(); kUnsupported for a packed dataset; kInvalid when the source changes meanwhile;
// kBusy; those of writing.
Result<IndexReport> write_index(io::FileSystem& fs, const std::string& source,
                                const IndexOptions& options);

// The samples that an index leaves out, and other notes. The lists are those of Listing. Samples
// whose class cannot be read are among the refused ones.
struct IndexRemarks {
  std::vector<Remark> refused;
  std::vector<Remark> remarks;
  std::vector<Remark> left_out;
  std::vector<Remark> hidden;
  std::vector<Remark> bad_shards;
  uint64_t ignored = 0;
};

// Makes an index of the present data at `places`: lists the folders, or reads the headers and
// classes of the shards. Samples whose class cannot be read are left out, as in pack. Having no
// sample is an error, unless OnBadShard::kNote is given and a sample was refused or a shard is bad.
Result<InPlaceIndex> make_index(const io::Origin& origin, const ResolvedSource& places,
                                OnBadShard on_bad_shard, IndexRemarks* remarks);

// Makes an index of a listing, whose samples have no bad classes.
InPlaceIndex index_of(const ResolvedSource& places, const Listing& listing);

// Reads the stored index and checks that it is up to date: the classes' folders or the shards are
// the same, each folder has the same time of change as when it was indexed, and each shard the same
// size and time. Folders of an object store have no such time; there, only changes of the list of
// classes are noticed. kNotFound if there is no index; any other error says why it cannot be used.
Result<InPlaceIndex> read_index(const io::Origin& origin, const ResolvedSource& places);

// Returns the path of the index: `<folder>/.forebay-index`, or `<folder>/.forebay-<name>.index` for
// a .tar or a range. It is a hidden file, which other readers of the folder (ImageFolder,
// WebDataset) ignore.
std::string index_path(const ResolvedSource& places);

}  // namespace forebay::store
