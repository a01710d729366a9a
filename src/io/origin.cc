#include "io/origin.h"

namespace forebay::io {

using base::Code;
using base::fail;

Result<base::ByteVector> read_file(const Origin& origin, const std::string& path, uint64_t limit) {
  ASSIGN_OR_RETURN(const auto file, origin.open(path));
  const uint64_t size = file->identity().size;
  if (size > limit) {
    return fail(Code::kTooBig, "{}: {} bytes, more than the limit of {}", path, size, limit);
  }
  base::ByteVector data(size);
  RETURN_IF_ERROR(file->read(0, data));
  return data;
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
