// Reads the current snapshot of a dataset.
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

// Reads HEAD and the root that HEAD names. Errors: kNotFound (no packed dataset there, or no root
// of that name), kCorrupt, kTooBig, kUnsupported, and those of the origin.
Result<StoredSnapshot> read_snapshot(const io::Origin& origin, const std::string& dataset);
// Reads the root that `head`, the content of HEAD, names. `kept`: where the root's bytes are kept
// on this machine; null: nowhere. Errors: same as read_snapshot().
Result<StoredSnapshot> read_root(const io::Origin& origin, const std::string& dataset,
                                 std::string_view head, const io::KeptFiles* kept);

}  // namespace forebay::store
