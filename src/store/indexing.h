// Makes the index of data in place, stores it in the data's folder, and tells whether a stored one
// still holds. Its bytes: in_place_index.h. docs/format.md, "index of data in place".
#pragma once

#include <functional>

#include "store/in_place_index.h"

namespace forebay::store {

struct IndexOptions {
  bool checksums = false;  // reads every image
  int threads = 0;         // for that; 0: io::usable_cores()
  std::function<void(uint64_t done, uint64_t samples)> progress = {};  // one thread at a time
};

struct IndexReport {
  std::string path;  // of the index
  uint64_t samples = 0;
  uint64_t files = 0;  // images' own, or shards
  uint64_t image_bytes = 0;
  uint64_t index_bytes = 0;
  std::vector<Remark> remarks;  // what is left out, and shards that may lack something
};

// Lists `source`, as list_source() takes it, and writes its index, atomically. Errors: as there;
// kUnsupported for a packed dataset; kInvalid when the source changes meanwhile; kBusy; and what
// writing gives.
Result<IndexReport> write_index(io::FileSystem& fs, const std::string& source,
                                const IndexOptions& options);

// What an index leaves out, and what is worth a look. The lists are those of Listing; samples whose
// class cannot be read are among those refused.
struct IndexRemarks {
  std::vector<Remark> refused;
  std::vector<Remark> remarks;
  std::vector<Remark> left_out;
  std::vector<Remark> bad_shards;
  uint64_t ignored = 0;
};

// Makes the index of the data at `places` as it is now: lists the folders, or reads the headers and
// classes of the shards. Samples whose class cannot be read are left out, as pack leaves them out.
// That there is no sample is an error, unless OnBadShard::kNote is given and something was refused
// or a shard is bad.
Result<InPlaceIndex> make_index(const io::FileSystem& fs, const SourcePlaces& places,
                                OnBadShard on_bad_shard, IndexRemarks* remarks);

// The stored index, as long as it holds: the classes' folders or the shards are the same, each
// folder has the time of change, each shard the size and the time, that it had when it was indexed.
// kNotFound when there is none; any other error says why it cannot be used.
Result<InPlaceIndex> read_index(const io::FileSystem& fs, const SourcePlaces& places);

// Where the index lies: `<folder>/.forebay-index`, and for a .tar or a range
// `<folder>/.forebay-<name>.index`. They are plain hidden files, which others that read the folder
// (ImageFolder, WebDataset) pass over.
std::string index_path(const SourcePlaces& places);

}  // namespace forebay::store
