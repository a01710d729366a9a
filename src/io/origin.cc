#include "io/origin.h"

#include <new>

#include "base/mutex.h"
#include "io/machine.h"

namespace forebay::io {

using base::Code;
using base::fail;

Status check_wanted(const std::string& path, const ReadOptions& options) {
  if (options.stop.stop_requested()) {
    return fail(Code::kCancelled, "{}: reading was stopped", path);
  }
  if (options.deadline_ns && monotonic_ns() >= *options.deadline_ns) {
    return fail(Code::kTimedOut, "{}: not read before its deadline", path);
  }
  return {};
}

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

uint64_t bytes_of(std::span<const Range> ranges) {
  uint64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.out.size();
  return bytes;
}

std::vector<Range> joined(std::vector<Range> ranges) {
  size_t count = 0;
  for (const Range& range : ranges) {
    Range* const last = count == 0 ? nullptr : &ranges[count - 1];
    const bool goes_on = last != nullptr && last->offset + last->out.size() == range.offset &&
                         last->out.data() + last->out.size() == range.out.data();
    if (goes_on) {
      last->out = {last->out.data(), last->out.size() + range.out.size()};
    } else {
      ranges[count++] = range;
    }
  }
  ranges.resize(count);
  return ranges;
}

Status read_ranges(const ReadableFile& file, std::vector<Range> ranges,
                   const ReadOptions& options) {
  base::Mutex mutex;
  base::CondVar changed;
  std::optional<Status> outcome;
  file.start(std::move(ranges), options, [&](Status status) {
    base::MutexLock lock(mutex);
    outcome = std::move(status);
    changed.notify_all();
  });
  base::MutexLock lock(mutex);
  while (!outcome) changed.wait(mutex);
  return std::move(*outcome);
}

bool Origin::is_remote(const std::string&) const { return false; }
bool Origin::keeps_copies(const std::string&) const { return false; }
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

bool are_comparable(const Origin& a, const std::string& path_a, const Origin& b,
                    const std::string& path_b) {
  return &a == &b || (!a.is_remote(path_a) && !b.is_remote(path_b));
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
