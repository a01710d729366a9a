// For tests: an object store in memory. It has no folders, renames or locks. An object appears
// whole or not at all, has an ETag, and its condition is checked in the same step as it is put.
#pragma once

#include <map>

#include "base/mutex.h"
#include "io/blocking_file.h"
#include "io/file_system.h"

namespace forebay::io {

class ObjectStore : public FileSystem {
 public:
  // From change number `at` on, counted from 0, puts and removals fail with kUnavailable, like the
  // requests of a process that was killed. With `last_takes_place` the first of them takes place,
  // and only its answer is lost.
  void fail_from(int64_t at, bool last_takes_place) {
    base::MutexLock lock(mutex_);
    changes_ = 0;
    fail_at_ = at;
    last_takes_place_ = last_takes_place;
  }
  void recover() { fail_from(-1, false); }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions&) const override {
    base::MutexLock lock(mutex_);
    const auto found = objects_.find(path);
    if (found == objects_.end()) return missing("open", path);
    return std::make_unique<Reader>(path, found->second);
  }

  Result<std::vector<DirEntry>> list(const std::string& path) const override {
    base::MutexLock lock(mutex_);
    std::map<std::string, DirEntry> names;
    const std::string prefix = path + "/";
    for (auto at = objects_.lower_bound(prefix); at != objects_.end(); ++at) {
      if (!at->first.starts_with(prefix)) break;
      const std::string rest = at->first.substr(prefix.size());
      const size_t slash = rest.find('/');
      const std::string name = rest.substr(0, slash);
      if (slash == std::string::npos) {
        names[name] = {name, FileType::kFile, info_of(at->second)};
      } else {
        names[name] = {name, FileType::kDirectory};
      }
    }
    if (names.empty()) return missing("list", path);
    std::vector<DirEntry> entries;
    for (auto& [name, entry] : names) entries.push_back(std::move(entry));
    return entries;
  }

  Result<FileInfo> stat(const std::string& path) const override {
    {
      base::MutexLock lock(mutex_);
      if (const auto found = objects_.find(path); found != objects_.end()) {
        return info_of(found->second);
      }
    }
    if (list(path)) return FileInfo{.type = FileType::kDirectory};
    return missing("stat", path);
  }

  bool is_remote(const std::string&) const override { return true; }
  std::string canonical(const std::string& path) const override { return path; }

  Status put_pieces(const std::string& path, std::span<const Bytes> pieces,
                    const PutOptions& options) override {
    base::MutexLock lock(mutex_);
    bool answers = true;
    RETURN_IF_ERROR(change(path, &answers));
    const auto found = objects_.find(path);
    const bool is_there = found != objects_.end();
    if (options.when == PutIf::kAbsent && is_there) {
      return base::fail(base::Code::kExists, "{}: something of that name is there", path);
    }
    if (options.when == PutIf::kUnchanged &&
        (!is_there || found->second.etag != options.known.etag)) {
      return base::fail(base::Code::kChanged, "{}: changed since it was read", path);
    }
    auto data = std::make_shared<base::ByteVector>();
    for (const Bytes piece : pieces) data->insert(data->end(), piece.begin(), piece.end());
    objects_[path] = {std::move(data), std::to_string(++last_etag_)};
    return answers ? Status() : lost(path);
  }

  Status remove(const std::string& path) override {
    base::MutexLock lock(mutex_);
    bool answers = true;
    RETURN_IF_ERROR(change(path, &answers));
    objects_.erase(path);
    return answers ? Status() : lost(path);
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string&) override {
    return std::unique_ptr<FileLock>();
  }

 private:
  struct Object {
    std::shared_ptr<const base::ByteVector> data;
    std::string etag;
  };

  class Reader final : public BlockingFile {
   public:
    Reader(const std::string& path, const Object& object)
        : BlockingFile(path, {.size = object.data->size(), .etag = object.etag}),
          data_(object.data) {}

   private:
    Result<size_t> read_some(uint64_t offset, MutableBytes out) const override {
      if (offset >= data_->size()) return size_t{0};
      const size_t length = std::min<size_t>(out.size(), data_->size() - offset);
      std::copy_n(data_->begin() + static_cast<ptrdiff_t>(offset), length, out.begin());
      return length;
    }

    std::shared_ptr<const base::ByteVector> data_;
  };

  static FileInfo info_of(const Object& object) {
    return {.type = FileType::kFile, .size = object.data->size()};
  }
  static tl::unexpected<Status> missing(std::string_view what, const std::string& path) {
    return base::fail(base::Code::kNotFound, "cannot {} {}: nothing of that name", what, path);
  }
  static Status lost(const std::string& path) {
    return base::fail(base::Code::kUnavailable, "{}: no answer", path);
  }
  Status change(const std::string& path, bool* answers) REQUIRES(mutex_) {
    const int64_t now = changes_++;
    if (fail_at_ < 0 || now < fail_at_) return {};
    if (now > fail_at_ || !last_takes_place_) return lost(path);
    *answers = false;
    return {};
  }

  mutable base::Mutex mutex_;
  std::map<std::string, Object> objects_ GUARDED_BY(mutex_);
  uint64_t last_etag_ GUARDED_BY(mutex_) = 0;
  int64_t changes_ GUARDED_BY(mutex_) = 0;
  int64_t fail_at_ GUARDED_BY(mutex_) = -1;
  bool last_takes_place_ GUARDED_BY(mutex_) = false;
};

}  // namespace forebay::io
