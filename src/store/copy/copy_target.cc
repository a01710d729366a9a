#include "store/copy/copy_target.h"

#include <algorithm>

#include "base/limits.h"
#include "store/format/snapshot.h"
#include "store/snapshot_builder.h"

namespace forebay::store {

using base::Code;
using base::fail;

Result<std::unique_ptr<io::FileLock>> CopyTarget::lock(const io::Origin& from,
                                                       const std::string& source) {
  if (folder_.empty()) return fail(Code::kInvalid, "the target's name is empty");
  // A remote origin that cannot be written refuses this; others have no locks and write nothing.
  if (to_.is_remote(folder_)) RETURN_IF_ERROR(to_.lock(lock_path()));
  RETURN_IF_ERROR(check_apart(from, source));
  // This comes before the lock, so that no lock file is made in a folder that is not ours.
  RETURN_IF_ERROR(check_is_free());
  return to_.lock(lock_path());
}

Status CopyTarget::check_apart(const io::Origin& from, const std::string& source) const {
  if (!io::are_comparable(from, source, to_, folder_)) return {};
  const std::string here = from.canonical(source);
  const std::string there = to_.canonical(folder_);
  if (here == there) {
    return fail(Code::kInvalid, "{} and {} are the same place", source, folder_);
  }
  if (there.starts_with(io::join_path(here, ""))) {
    return fail(Code::kInvalid, "the target {} is inside the source {}; choose a folder beside it",
                folder_, source);
  }
  return {};
}

// A copy puts its mark before all other files. So if there is neither a mark nor a HEAD, the
// folder's files do not belong to a copy.
Status CopyTarget::check_is_free() const {
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(to_, folder_));
  const auto has_any = [&](std::string_view name) {
    return std::ranges::find(entries, name, &io::DirEntry::name) != entries.end();
  };
  if (has_any("COPY") || has_any("HEAD")) return {};
  const auto other = std::ranges::find_if(entries, [](const io::DirEntry& entry) {
    return entry.name != "LOCK" && !io::is_unfinished_put(entry.name);
  });
  if (other == entries.end()) return {};
  return fail(Code::kExists, "{} holds {} ({}); choose an empty or a new folder", folder_,
              other->name == "journal" ? "a pack that is not complete" : "other files",
              other->name);
}

Result<bool> CopyTarget::begin(const base::Sha256& root) {
  RETURN_IF_ERROR(look());
  const auto head = to_.read_whole(head_path(folder_), base::kHeadBytesMax);
  if (!head && head.error().code() == Code::kNotFound) {
    RETURN_IF_ERROR(put_mark(root));
    return false;
  }
  RETURN_IF_ERROR(head);
  if (base::as_text(*head) == encode_head(root)) return true;
  return fail(Code::kExists,
              "{} holds a dataset already, but not the source's snapshot {}; choose another folder",
              folder_, base::to_hex(root));
}

Status CopyTarget::put_mark(const base::Sha256& root) {
  const std::string path = copy_mark_path(folder_);
  const std::string text = fmt::format("forebay copy 0 {}\n", base::to_hex(root));
  const Status status = to_.put(path, base::as_bytes(text), {.when = io::PutIf::kAbsent});
  if (status.code() != Code::kExists) return status;
  const auto there = to_.read_whole(path, base::kHeadBytesMax);
  // Another run of this copy may have completed it meanwhile; then put_head() finds the right HEAD.
  if (!there && there.error().code() == Code::kNotFound) return {};
  RETURN_IF_ERROR(there);
  if (base::as_text(*there) == text) return {};
  return fail(Code::kExists,
              "{} holds a copy of another snapshot that is not complete; choose another folder, or "
              "remove {} to begin anew",
              folder_, folder_);
}

// Lists the folders with chunks and snapshots. An object store lists sizes too, so that they need
// no requests of their own.
Status CopyTarget::look() {
  for (const std::string_view name : {"snapshots", "chunks"}) {
    const std::string folder = io::join_path(folder_, name);
    ASSIGN_OR_RETURN(const auto entries, io::list_if_there(to_, folder));
    for (const io::DirEntry& entry : entries) {
      there_[io::join_path(folder, entry.name)] = entry.info;
    }
  }
  return {};
}

Result<bool> CopyTarget::has(const std::string& path, uint64_t bytes) const {
  const auto found = there_.find(path);
  if (found == there_.end()) return false;
  if (found->second) return found->second->size == bytes;
  ASSIGN_OR_RETURN(const io::FileInfo info, to_.stat(path));
  return info.size == bytes;
}

Result<std::vector<ChunkFile>> CopyTarget::missing(const std::vector<ChunkFile>& chunks) const {
  std::vector<ChunkFile> missing;
  for (const ChunkFile& chunk : chunks) {
    ASSIGN_OR_RETURN(const bool is_there, has(chunk_path(folder_, chunk.id), chunk.bytes));
    if (!is_there) missing.push_back(chunk);
  }
  return missing;
}

Status CopyTarget::put_if_missing(const std::string& path, Bytes data) {
  ASSIGN_OR_RETURN(const bool is_there, has(path, data.size()));
  return is_there ? Status() : to_.put(path, data);
}

Status CopyTarget::make_current(const base::Sha256& root, bool is_current) {
  if (!is_current) RETURN_IF_ERROR(put_head(to_, folder_, root, {}));
  // The mark is also removed if the snapshot was current: a run that was killed after it put HEAD
  // left its mark.
  const Status removed = to_.remove(copy_mark_path(folder_));
  return removed.code() == Code::kNotFound ? Status() : removed;
}

}  // namespace forebay::store
