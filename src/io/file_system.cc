#include "io/file_system.h"

namespace forebay::io {

using base::Code;
using base::fail;

Result<base::ByteVector> read_file(const FileSystem& fs, const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const auto file, fs.open(path));
  ASSIGN_OR_RETURN(const uint64_t size, file->size());
  if (size > limit) {
    return fail(Code::kTooBig, "{}: {} bytes, more than the limit of {}", path, size, limit);
  }
  base::ByteVector data(size);
  RETURN_IF_ERROR(file->read(0, data));
  return data;
}

namespace {

Status write_new(FileSystem& fs, const std::string& path, Bytes data) {
  ASSIGN_OR_RETURN(const auto file, fs.create(path));
  RETURN_IF_ERROR(file->append(data));
  RETURN_IF_ERROR(file->sync());
  return file->close();
}

}  // namespace

Status write_file_atomically(FileSystem& fs, const std::string& path, Bytes data) {
  const std::string temporary = path + ".tmp";
  Status status = write_new(fs, temporary, data);
  if (status.ok()) status = fs.rename(temporary, path);
  if (!status.ok()) {
    // The first error is the one to report; a leftover .tmp harms nobody.
    static_cast<void>(fs.remove(temporary).ok());
    return status;
  }
  return fs.sync_dir(parent_path(path));
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

}  // namespace forebay::io
