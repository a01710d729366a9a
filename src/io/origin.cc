#include "io/origin.h"

#include <new>

namespace forebay::io {

using base::Code;
using base::fail;

void ReadableFile::start(std::vector<Range> ranges, const ReadOptions& options,
                         std::function<void(Status)> done) const {
  Status status;
  try {
    for (const Range& range : ranges) {
      if (status.ok()) status = read(range.offset, range.out, options);
    }
  } catch (const std::bad_alloc&) {
    status = fail(Code::kNoMemory, "{}: no memory to read it", path());
  }
  done(std::move(status));
}

bool Origin::is_remote(const std::string&) const { return false; }
size_t Origin::ranges_max(const std::string&) const { return SIZE_MAX; }
Traffic Origin::traffic(const std::string&) const { return {}; }

Result<base::ByteVector> Origin::read_whole(const std::string& path, uint64_t limit) const {
  ASSIGN_OR_RETURN(const auto file, open(path));
  const uint64_t size = file->identity().size;
  if (size > limit) {
    return fail(Code::kTooBig, "{}: {} bytes, more than the limit of {}", path, size, limit);
  }
  base::ByteVector data(size);
  RETURN_IF_ERROR(file->read(0, data));
  return data;
}

Result<base::ByteVector> read_file(const Origin& origin, const std::string& path, uint64_t limit) {
  return origin.read_whole(path, limit);
}

Result<bool> exists(const Origin& origin, const std::string& path) {
  const auto info = origin.stat(path);
  if (!info && info.error().code() != Code::kNotFound) return tl::unexpected(info.error());
  return info.has_value();
}

Result<std::vector<DirEntry>> list_if_there(const Origin& origin, const std::string& path) {
  auto entries = origin.list(path);
  if (!entries && entries.error().code() == Code::kNotFound) return std::vector<DirEntry>();
  return entries;
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
