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

// Of the data at `places`, as it is now: folders are listed, shards' headers and classes read.
// Samples whose class cannot be read are left out, as pack leaves them out.
Result<InPlaceIndex> make_index(const io::FileSystem& fs, const SourcePlaces& places,
                                std::vector<Remark>* remarks);

// The stored index, as long as it holds: each folder has the time of change, each shard the size
// and the time, that it had when it was indexed. kNotFound when there is none; any other error says
// why it cannot be used.
Result<InPlaceIndex> read_index(const io::FileSystem& fs, const SourcePlaces& places);

// `<folder>/.forebay/index`; for a .tar or a range `<folder>/.forebay/<name>.index`.
std::string index_path(const SourcePlaces& places);

}  // namespace forebay::store
