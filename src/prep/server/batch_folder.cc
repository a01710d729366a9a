#include "prep/server/batch_folder.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::MutexLock;

namespace {

constexpr std::string_view kPrefix = "forebay-prep-";

}  // namespace

BatchFile::~BatchFile() { folder_->remove(*this); }

Result<std::shared_ptr<BatchFolder>> BatchFolder::open(const std::string& parent,
                                                       uint64_t bytes_max) {
  io::FileSystem& files = io::posix_file_system();
  const auto info = files.stat(parent);
  if (!info) return tl::unexpected(info.error().at("prep"));
  if (info->type != io::FileType::kDirectory) {
    return fail(Code::kInvalid, "prep: {} is not a folder", parent);
  }
  io::ScratchFiles::remove_abandoned(parent, std::string(kPrefix));
  std::shared_ptr<BatchFolder> out(new BatchFolder(bytes_max));
  const std::string own = std::string(kPrefix) + io::random_file_name().substr(0, 16);
  ASSIGN_OR_RETURN(out->files_, io::ScratchFiles::open(io::join_path(files.canonical(parent), own),
                                                       io::Found::kRemove));
  out->mark_ = io::random_file_name();
  RETURN_IF_ERROR(out->files_->write(out->mark_, 0, base::as_bytes(out->mark_)));
  out->remover_.start(1, [own = out.get()](uint32_t) { own->remove_files(); });
  return out;
}

// Changes the room that a file takes to `bytes`. False if there is too little.
bool BatchFolder::take_room(uint64_t bytes, BatchFile* file) {
  MutexLock lock(mutex_);
  const auto fits = [&]() REQUIRES(mutex_) { return bytes <= bytes_max_ - bytes_ + file->bytes_; };
  while (!fits() && going_bytes_ > 0) removed_.wait(mutex_);
  if (!fits()) {
    trouble_ = "the folder is full";
    return false;
  }
  bytes_ += bytes - file->bytes_;
  file->bytes_ = bytes;
  return true;
}

BatchFolder::~BatchFolder() {
  to_remove_.close();
  remover_.wait();
}

void BatchFolder::remove(const BatchFile& file) {
  if (file.name().empty()) return;  // it was never written
  MutexLock lock(mutex_);
  going_bytes_ += file.bytes();
  to_remove_.push({file.name(), file.bytes()});
}

void BatchFolder::remove_files() {
  while (const auto file = to_remove_.pop()) {
    files_->remove(file->first);
    MutexLock lock(mutex_);
    bytes_ -= file->second;
    going_bytes_ -= file->second;
    removed_.notify_all();
  }
}

Status BatchFolder::put(const BatchBytes& batch, BatchFile* file) const {
  const std::string name = io::random_file_name();
  // If somebody has removed the file, a new one is made.
  if (!file->name_.empty() && !files_->rename(file->name_, name).ok()) files_->remove(file->name_);
  file->name_ = name;
  files_->cut(name, batch.bytes);
  RETURN_IF_ERROR(files_->write(name, 0, batch.head));
  uint64_t offset = batch.head.size();
  for (const Bytes piece : batch.rest) {
    RETURN_IF_ERROR(files_->write(name, offset, piece));
    offset += piece.size();
  }
  files_->close(name);
  return {};
}

std::unique_ptr<BatchFile> BatchFolder::write(const BatchBytes& batch,
                                              std::unique_ptr<BatchFile> over) {
  auto file = over != nullptr ? std::move(over)
                              : std::unique_ptr<BatchFile>(new BatchFile(shared_from_this()));
  if (!take_room(batch.bytes, file.get())) return nullptr;
  const Status written = put(batch, file.get());
  if (written.ok()) return file;
  MutexLock lock(mutex_);
  trouble_ = written.message();
  return nullptr;
}

std::string BatchFolder::trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

}  // namespace forebay::prep
