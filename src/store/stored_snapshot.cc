#include "store/stored_snapshot.h"

#include "base/limits.h"

namespace forebay::store {

using base::Code;
using base::fail;

Result<StoredSnapshot> read_snapshot(const io::Origin& origin, const std::string& dataset) {
  const std::string head_file = head_path(dataset);
  auto head = io::read_file(origin, head_file, base::kHeadBytesMax);
  if (!head && head.error().code() == Code::kNotFound) {
    return fail(Code::kNotFound,
                "{}: no dataset there (it has no file HEAD); make one with `forebay pack`",
                dataset);
  }
  RETURN_IF_ERROR(head);
  const auto id = decode_head(base::as_text(*head));
  if (!id) return tl::unexpected(id.error().at(head_file));
  const std::string root_file = root_path(dataset, *id);
  StoredSnapshot snapshot{.id = *id, .bytes = {}, .root = {}};
  ASSIGN_OR_RETURN(snapshot.bytes, io::read_file(origin, root_file, base::kSnapshotRootBytesMax));
  if (base::sha256(snapshot.bytes) != *id) {
    return fail(Code::kCorrupt, "{}: damaged: its content does not have the hash that names it",
                root_file);
  }
  auto root = decode_root(snapshot.bytes);
  if (!root) return tl::unexpected(root.error().at(root_file));
  snapshot.root = std::move(*root);
  return snapshot;
}

}  // namespace forebay::store
