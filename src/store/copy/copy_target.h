// The folder in which a copy of a dataset is made: checks that it may be used, knows which files it
// already has, and writes the mark of an unfinished copy and HEAD. copy.cc copies the files.
#pragma once

#include <compare>
#include <map>

#include "base/checksum.h"
#include "io/file_system.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

struct ChunkFile {
  base::Sha256 id{};
  uint64_t bytes = 0;
  auto operator<=>(const ChunkFile&) const = default;
};

// One thread calls everything.
class CopyTarget {
 public:
  // `to` outlives this.
  CopyTarget(io::FileSystem& to, std::string folder) : to_(to), folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  // Checks that the folder may become a copy of `source`, and locks it where there are locks.
  // Errors: kInvalid, kExists, kUnsupported and kBusy like copy_dataset().
  Result<std::unique_ptr<io::FileLock>> lock(const io::Origin& from, const std::string& source);
  // Marks the folder as an unfinished copy of the snapshot with this root, so that nothing else is
  // made there. Returns true if the snapshot already is the folder's current one. Errors: kExists
  // (the folder has another dataset, or another copy was begun).
  Result<bool> begin(const base::Sha256& root);
  // Returns those of the chunks that the folder lacks or has with another size.
  Result<std::vector<ChunkFile>> missing(const std::vector<ChunkFile>& chunks) const;
  // Puts a file that is named by its hash, unless the folder had a file of this name and size.
  Status put_if_missing(const std::string& path, Bytes data);
  // Puts HEAD, unless the snapshot `is_current` already, and removes the mark. Everything that HEAD
  // leads to must be stored. Errors: kChanged (another process put another HEAD).
  Status make_current(const base::Sha256& root, bool is_current);

 private:
  Status check_apart(const io::Origin& from, const std::string& source) const;
  Status check_is_free() const;
  Status put_mark(const base::Sha256& root);
  Status look();
  Result<bool> has(const std::string& path, uint64_t bytes) const;
  std::string lock_path() const { return io::join_path(folder_, "LOCK"); }

  io::FileSystem& to_;
  const std::string folder_;
  // The files in chunks/ and snapshots/ when the work began, by path, with their sizes if the
  // listing had them.
  std::map<std::string, std::optional<io::FileInfo>> there_;
};

}  // namespace forebay::store
