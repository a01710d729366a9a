#include "io/testing/faulty.h"

namespace forebay::io {

using base::fail;

Status FaultyFileSystem::step(Fault::On on, std::string_view what, const std::string& path) const {
  if (on != fault_.on || path.find(fault_.in) == std::string::npos) return {};
  const int64_t now = operations_++;
  if (fault_.at < 0 || now < fault_.at || (now > fault_.at && !fault_.for_ever)) return {};
  return fail(fault_.code, "cannot {} {}: injected fault at operation {}", what, path, now);
}

class FaultyFileSystem::Reader final : public ReadableFile {
 public:
  Reader(const FaultyFileSystem& fs, std::unique_ptr<ReadableFile> below)
      : fs_(fs), below_(std::move(below)) {}
  const std::string& path() const override { return below_->path(); }
  const Identity& identity() const override { return below_->identity(); }
  Status read(uint64_t offset, MutableBytes out, const ReadOptions& options) const override {
    RETURN_IF_ERROR(fs_.step(Fault::On::kRead, "read", path()));
    return below_->read(offset, out, options);
  }

 private:
  const FaultyFileSystem& fs_;
  std::unique_ptr<ReadableFile> below_;
};

class FaultyFileSystem::Writer final : public WritableFile {
 public:
  Writer(FaultyFileSystem& fs, std::unique_ptr<WritableFile> below, std::string path)
      : fs_(fs), below_(std::move(below)), path_(std::move(path)) {}
  Status append_pieces(std::span<const Bytes> pieces) override {
    const Status status = fs_.step(Fault::On::kWrite, "write", path_);
    if (status.ok()) return below_->append_pieces(pieces);
    if (pieces.empty()) return status;
    // A full disk still takes a part of the data.
    const size_t half = pieces.size() / 2;
    RETURN_IF_ERROR(below_->append_pieces(pieces.first(half)));
    RETURN_IF_ERROR(below_->append(pieces[half].first(pieces[half].size() / 2)));
    return status;
  }
  Status sync() override {
    RETURN_IF_ERROR(fs_.step(Fault::On::kWrite, "sync", path_));
    return below_->sync();
  }
  Status close() override { return below_->close(); }

 private:
  FaultyFileSystem& fs_;
  std::unique_ptr<WritableFile> below_;
  std::string path_;
};

Result<std::unique_ptr<ReadableFile>> FaultyFileSystem::open(const std::string& path,
                                                             const OpenOptions& options) const {
  RETURN_IF_ERROR(step(Fault::On::kRead, "open", path));
  ASSIGN_OR_RETURN(auto file, below_.open(path, options));
  return std::make_unique<Reader>(*this, std::move(file));
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::create(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "create", path));
  ASSIGN_OR_RETURN(auto file, below_.create(path));
  return std::make_unique<Writer>(*this, std::move(file), path);
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::append_to(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "open", path));
  ASSIGN_OR_RETURN(auto file, below_.append_to(path));
  return std::make_unique<Writer>(*this, std::move(file), path);
}

Status FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "rename to", to));
  return below_.rename(from, to);
}

Status FaultyFileSystem::remove(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "remove", path));
  return below_.remove(path);
}

Status FaultyFileSystem::make_dir(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "make the folder", path));
  return below_.make_dir(path);
}

Status FaultyFileSystem::sync_dir(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "sync", path));
  return below_.sync_dir(path);
}

Result<std::vector<DirEntry>> FaultyFileSystem::list(const std::string& path) const {
  RETURN_IF_ERROR(step(Fault::On::kRead, "list", path));
  return below_.list(path);
}

Result<FileInfo> FaultyFileSystem::stat(const std::string& path) const {
  RETURN_IF_ERROR(step(Fault::On::kRead, "stat", path));
  return below_.stat(path);
}

Result<std::unique_ptr<FileLock>> FaultyFileSystem::lock_file(const std::string& path) {
  RETURN_IF_ERROR(step(Fault::On::kWrite, "lock", path));
  return below_.lock_file(path);
}

}  // namespace forebay::io
