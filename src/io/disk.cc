#include "io/disk.h"

#include "base/checksum.h"

namespace forebay::io {

using base::Code;
using base::fail;

namespace {

constexpr std::string_view kUnfinishedPrefix = ".forebay-";
constexpr std::string_view kUnfinishedSuffix = ".tmp";
constexpr size_t kUnfinishedDigits = 16;

// The file that a put of `path` writes and then renames. Its name depends on `path` alone, so that
// the next put replaces a file that a killed process left. The name is a hash, so that it is never
// too long.
std::string unfinished_path(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::string hash = base::to_hex(base::sha256(base::as_bytes(name)));
  return join_path(parent_path(path),
                   fmt::format("{}{}{}", kUnfinishedPrefix, hash.substr(0, kUnfinishedDigits),
                               kUnfinishedSuffix));
}

}  // namespace

bool is_unfinished_put(std::string_view name) {
  const bool framed =
      name.starts_with(kUnfinishedPrefix) && name.ends_with(kUnfinishedSuffix) &&
      name.size() == kUnfinishedPrefix.size() + kUnfinishedDigits + kUnfinishedSuffix.size();
  return framed && name.substr(kUnfinishedPrefix.size(), kUnfinishedDigits)
                           .find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Status DiskFileSystem::put_pieces(const std::string& path, std::span<const Bytes> pieces,
                                  const PutOptions& options) {
  const std::string folder = parent_path(path);
  const std::string unfinished = unfinished_path(path);
  Status status = write_new(unfinished, pieces, options.durable);
  if (status.code() == Code::kNotFound) {
    RETURN_IF_ERROR(make_dirs(folder, options.durable));
    status = write_new(unfinished, pieces, options.durable);
  }
  if (status.ok()) status = check(path, options);
  if (status.ok()) status = rename(unfinished, path);
  if (!status.ok()) {
    // This makes room on a full disk. The first error is the one to report.
    static_cast<void>(remove(unfinished).ok());
    return status.at(path);
  }
  return options.durable ? sync_dir(folder).at(path) : Status();
}

Status DiskFileSystem::write_new(const std::string& path, std::span<const Bytes> pieces,
                                 bool durable) {
  ASSIGN_OR_RETURN(const auto file, create(path));
  RETURN_IF_ERROR(file->append_pieces(pieces));
  if (durable) RETURN_IF_ERROR(file->sync());
  return file->close();
}

Status DiskFileSystem::check(const std::string& path, const PutOptions& options) const {
  if (options.when == PutIf::kAlways) return {};
  const auto info = stat(path);
  if (!info && info.error().code() != Code::kNotFound) return info.error();
  if (options.when == PutIf::kAbsent) {
    return info ? Status(Code::kExists, "a file or folder of that name exists already") : Status();
  }
  if (info && info->size == options.known.size && info->modified_ns == options.known.modified_ns) {
    return {};
  }
  return fail(Code::kChanged, "{} since it was read", info ? "replaced" : "removed");
}

Result<std::unique_ptr<FileLock>> DiskFileSystem::lock(const std::string& path) {
  auto held = lock_file(path);
  if (held || held.error().code() != Code::kNotFound) return held;
  RETURN_IF_ERROR(make_dirs(parent_path(path)));
  return lock_file(path);
}

Status DiskFileSystem::make_dirs(const std::string& path, bool durable) {
  const auto info = stat(path);
  if (info && info->type == FileType::kDirectory) return {};
  if (info) {
    return fail(Code::kExists, "cannot make the folder {}: a file of that name exists", path);
  }
  if (info.error().code() != Code::kNotFound) return info.error();
  const std::string parent = parent_path(path);
  if (parent != path) RETURN_IF_ERROR(make_dirs(parent, durable));
  const Status made = make_dir(path);
  if (!made.ok() && made.code() != Code::kExists) return made;
  return durable ? sync_dir(parent) : Status();
}

}  // namespace forebay::io
