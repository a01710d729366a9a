#include "io/testing/memory.h"

#include <algorithm>
#include <set>

#include "io/blocking_file.h"

namespace forebay::io {

using base::ByteVector;
using base::Code;
using base::fail;
using base::Mutex;
using base::MutexLock;

struct MemoryFileSystem::File {
  ByteVector data;
  uint64_t synced = 0;
  int64_t modified_ns = 0;
};

struct MemoryFileSystem::State {
  mutable Mutex mutex;
  std::map<std::string, std::shared_ptr<File>> files GUARDED_BY(mutex);
  std::map<std::string, std::shared_ptr<File>> durable_files GUARDED_BY(mutex);
  std::map<std::string, int64_t> directories GUARDED_BY(mutex);  // with their modification times
  std::set<std::string> locks GUARDED_BY(mutex);
};

class MemoryFileSystem::Reader final : public BlockingFile {
 public:
  Reader(std::shared_ptr<State> state, std::shared_ptr<File> file, std::string path,
         Identity identity)
      : BlockingFile(std::move(path), std::move(identity)),
        state_(std::move(state)),
        file_(std::move(file)) {}

 private:
  Result<size_t> read_some(uint64_t offset, MutableBytes out) const override {
    MutexLock lock(state_->mutex);
    if (offset >= file_->data.size()) return size_t{0};
    const size_t length = std::min<uint64_t>(out.size(), file_->data.size() - offset);
    std::copy_n(file_->data.begin() + static_cast<ptrdiff_t>(offset), length, out.begin());
    return length;
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<File> file_;
};

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  Writer(std::shared_ptr<State> state, std::shared_ptr<File> file)
      : state_(std::move(state)), file_(std::move(file)) {}
  Status append_pieces(std::span<const Bytes> pieces) override {
    MutexLock lock(state_->mutex);
    for (const Bytes data : pieces) {
      file_->data.insert(file_->data.end(), data.begin(), data.end());
    }
    return {};
  }
  Status sync() override {
    MutexLock lock(state_->mutex);
    file_->synced = file_->data.size();
    return {};
  }
  Status close() override { return {}; }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<File> file_;
};

class MemoryFileSystem::Lock final : public FileLock {
 public:
  Lock(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)) {}
  ~Lock() override {
    MutexLock lock(state_->mutex);
    state_->locks.erase(path_);
  }

 private:
  std::shared_ptr<State> state_;
  std::string path_;
};

MemoryFileSystem::MemoryFileSystem() : state_(std::make_shared<State>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

Result<std::unique_ptr<ReadableFile>> MemoryFileSystem::open(const std::string& path,
                                                             const OpenOptions&) const {
  MutexLock lock(state_->mutex);
  const auto found = state_->files.find(path);
  if (found == state_->files.end()) {
    return fail(Code::kNotFound, "cannot open {}: no such file", path);
  }
  const File& file = *found->second;
  return std::make_unique<Reader>(
      state_, found->second, path,
      Identity{.size = file.data.size(), .modified_ns = file.modified_ns});
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::create(const std::string& path) {
  MutexLock lock(state_->mutex);
  if (!state_->directories.contains(parent_path(path))) {
    return fail(Code::kNotFound, "cannot create {}: no such folder", path);
  }
  auto file = std::make_shared<File>();
  state_->files[path] = file;
  return std::make_unique<Writer>(state_, std::move(file));
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::append_to(const std::string& path) {
  MutexLock lock(state_->mutex);
  std::shared_ptr<File>& file = state_->files[path];
  if (file == nullptr) file = std::make_shared<File>();
  return std::make_unique<Writer>(state_, file);
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  MutexLock lock(state_->mutex);
  const auto found = state_->files.find(from);
  if (found == state_->files.end()) {
    return fail(Code::kNotFound, "cannot rename to {}: no file {}", to, from);
  }
  state_->files[to] = found->second;
  state_->files.erase(from);
  return {};
}

Status MemoryFileSystem::remove(const std::string& path) {
  MutexLock lock(state_->mutex);
  if (state_->files.erase(path) != 0) return {};
  const auto is_inside = [&](const auto& entry) {
    return entry.first != path && parent_path(entry.first) == path;
  };
  if (std::ranges::any_of(state_->files, is_inside) ||
      std::ranges::any_of(state_->directories, is_inside)) {
    return fail(Code::kIo, "cannot remove {}: the folder is not empty", path);
  }
  if (state_->directories.erase(path) != 0) return {};
  return fail(Code::kNotFound, "cannot remove {}: nothing of that name", path);
}

Status MemoryFileSystem::make_dir(const std::string& path) {
  MutexLock lock(state_->mutex);
  if (!state_->directories.emplace(path, 0).second) {
    return fail(Code::kExists, "cannot make the folder {}: it exists already", path);
  }
  return {};
}

Status MemoryFileSystem::sync_dir(const std::string& path) {
  MutexLock lock(state_->mutex);
  std::erase_if(state_->durable_files,
                [&](const auto& entry) { return parent_path(entry.first) == path; });
  for (const auto& [name, file] : state_->files) {
    if (parent_path(name) == path) state_->durable_files[name] = file;
  }
  return {};
}

Result<std::vector<DirEntry>> MemoryFileSystem::list(const std::string& path) const {
  MutexLock lock(state_->mutex);
  if (!state_->directories.contains(path)) {
    return fail(Code::kNotFound, "cannot list {}: no such folder", path);
  }
  const auto name_of = [](const std::string& full) { return full.substr(full.rfind('/') + 1); };
  std::vector<DirEntry> entries;
  for (const auto& [name, file] : state_->files) {
    if (parent_path(name) == path) entries.push_back({name_of(name), FileType::kFile});
  }
  for (const auto& [name, modified_ns] : state_->directories) {
    if (name != path && parent_path(name) == path) {
      entries.push_back({name_of(name), FileType::kDirectory});
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  return entries;
}

Result<FileInfo> MemoryFileSystem::stat(const std::string& path) const {
  MutexLock lock(state_->mutex);
  if (const auto found = state_->files.find(path); found != state_->files.end()) {
    const File& file = *found->second;
    return FileInfo{.type = FileType::kFile,
                    .size = file.data.size(),
                    .modified_ns = file.modified_ns,
                    .allocated = file.data.size()};
  }
  if (const auto found = state_->directories.find(path); found != state_->directories.end()) {
    return FileInfo{.type = FileType::kDirectory, .modified_ns = found->second};
  }
  return fail(Code::kNotFound, "cannot stat {}: nothing of that name", path);
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::lock_file(const std::string& path) {
  MutexLock lock(state_->mutex);
  if (!state_->directories.contains(parent_path(path))) {
    return fail(Code::kNotFound, "cannot open {}: no such folder", path);
  }
  if (!state_->locks.insert(path).second) {
    return fail(Code::kBusy, "{} is held by this process", path);
  }
  return std::make_unique<Lock>(state_, path);
}

void MemoryFileSystem::power_loss(uint64_t torn_bytes) {
  MutexLock lock(state_->mutex);
  state_->files = state_->durable_files;
  state_->locks.clear();
  for (const auto& [name, file] : state_->files) {
    file->data.resize(std::min<uint64_t>(file->data.size(), file->synced + torn_bytes));
    file->synced = file->data.size();
    for (std::string folder = parent_path(name);; folder = parent_path(folder)) {
      if (!state_->directories.emplace(folder, 0).second) break;
    }
  }
}

ByteVector& MemoryFileSystem::content(const std::string& path) {
  MutexLock lock(state_->mutex);
  return state_->files.at(path)->data;
}

void MemoryFileSystem::set_modified(const std::string& path, int64_t modified_ns) {
  MutexLock lock(state_->mutex);
  if (const auto found = state_->directories.find(path); found != state_->directories.end()) {
    found->second = modified_ns;
    return;
  }
  state_->files.at(path)->modified_ns = modified_ns;
}

}  // namespace forebay::io
