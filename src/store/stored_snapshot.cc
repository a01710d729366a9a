#include "store/stored_snapshot.h"

#include "base/limits.h"
#include "store/kept.h"

namespace forebay::store {

using base::Code;
using base::fail;

Result<StoredSnapshot> read_snapshot(const io::Origin& origin, const std::string& dataset) {
  const std::string head_file = head_path(dataset);
  auto head = origin.read_whole(head_file, base::kHeadBytesMax);
  if (!head && head.error().code() == Code::kNotFound) {
    return fail(Code::kNotFound,
                "{}: no dataset there (it has no file HEAD); make one with `forebay pack`",
                dataset);
  }
  RETURN_IF_ERROR(head);
  return read_root(origin, dataset, base::as_text(*head), nullptr);
}

Result<StoredSnapshot> read_root(const io::Origin& origin, const std::string& dataset,
                                 std::string_view head, const io::KeptFiles* kept) {
  const auto id = decode_head(head);
  if (!id) return tl::unexpected(id.error().at(head_path(dataset)));
  const std::string file = root_path(dataset, *id);
  const auto read = [&] { return origin.read_whole(file, base::kSnapshotRootBytesMax); };
  const auto decode = [&](base::Bytes bytes) -> Result<StoredSnapshot> {
    if (base::sha256(bytes) != *id) {
      return fail(Code::kCorrupt, "{}: damaged: its content does not match the hash in its name",
                  file);
    }
    auto root = decode_root(bytes);
    if (!root) return tl::unexpected(root.error().at(file));
    return StoredSnapshot{
        .id = *id, .bytes = {bytes.begin(), bytes.end()}, .root = std::move(*root)};
  };
  return kept_or_read(kept, kept_name(*id, kKeptRoot), origin.is_remote(file), read, decode);
}

}  // namespace forebay::store
