// Makes the index of data in place, stores it in the data's folder, and tells whether a stored
// index still holds. The codec is format/in_place_index.h; see docs/format.md, "index of data in
// place".
#pragma once

#include <functional>

#include "io/file_system.h"
#include "store/format/in_place_index.h"
#include "store/source/source.h"

namespace forebay::store {

struct IndexOptions {
  bool checksums = false;  // reads every image
  int threads = 0;         // threads that read; 0 means io::usable_cores()
  std::function<void(uint64_t done, uint64_t samples)> progress = {};  // one thread at a time
};

struct IndexReport {
  std::string path;  // the path of the index
  uint64_t samples = 0;
  uint64_t files = 0;  // files of images, or shards
  uint64_t image_bytes = 0;
  uint64_t index_bytes = 0;
  // What is left out, shards that may lack something, and that a store's folders do not show
  // changes.
  std::vector<Remark> remarks;
};

// Lists `source` like list_source() and writes its index atomically. Errors: those of
// list_source(); kUnsupported for a packed dataset; kInvalid when the source changes meanwhile;
// kBusy; those of writing.
Result<IndexReport> write_index(io::FileSystem& fs, const std::string& source,
                                const IndexOptions& options);

// What an index leaves out, and what is worth a look. The lists are those of Listing. Samples whose
// class cannot be read are among the refused ones.
struct IndexRemarks {
  std::vector<Remark> refused;
  std::vector<Remark> remarks;
  std::vector<Remark> left_out;
  std::vector<Remark> bad_shards;
  uint64_t ignored = 0;
};

// Makes the index of the data at `places` as it is now: lists the folders, or reads the headers and
// classes of the shards. Samples whose class cannot be read are left out, the same as in pack. It
// is an error if there is no sample, unless OnBadShard::kNote is given and something was refused or
// a shard is bad.
Result<InPlaceIndex> make_index(const io::Origin& origin, const ResolvedSource& places,
                                OnBadShard on_bad_shard, IndexRemarks* remarks);

// Reads the stored index, if it still holds: the classes' folders or the shards are the same, each
// folder has the time of change that it had when it was indexed, and each shard its size and time.
// The folders of a store have no such time: there, only other classes are noticed.
// kNotFound when there is no index; any other error says why it cannot be used.
Result<InPlaceIndex> read_index(const io::Origin& origin, const ResolvedSource& places);

// Where the index lies: `<folder>/.forebay-index`, and for a .tar or a range
// `<folder>/.forebay-<name>.index`. They are plain hidden files, which others that read the folder
// (ImageFolder, WebDataset) pass over.
std::string index_path(const ResolvedSource& places);

}  // namespace forebay::store
