#include "io/file_system.h"

namespace forebay::io {

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

}  // namespace forebay::io
