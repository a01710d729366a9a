// Which snapshot of a dataset is the current one.
#pragma once

#include "io/kept_files.h"
#include "io/origin.h"
#include "store/format/snapshot.h"

namespace forebay::store {

struct StoredSnapshot {
  base::Sha256 id{};       // the hash of the root's file, which is its name
  base::ByteVector bytes;  // the root's file
  SnapshotRoot root;
};

// Reads HEAD and the root that it names. Errors: kNotFound (no packed dataset there, or no root of
// that name), kCorrupt, kTooBig, kUnsupported, and those of the origin.
Result<StoredSnapshot> read_snapshot(const io::Origin& origin, const std::string& dataset);
// Reads the root that `head`, the content of HEAD, names; it is kept in `kept` unless that is null.
// Errors: like read_snapshot().
Result<StoredSnapshot> read_root(const io::Origin& origin, const std::string& dataset,
                                 std::string_view head, const io::KeptFiles* kept);

}  // namespace forebay::store
