// Batches that a prep server leaves as files in a folder that hosts can read: on shared storage, or
// in a memory file system of a machine that is host and prep server.
#pragma once

#include <memory>
#include <string>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
#include "io/scratch_files.h"
#include "prep/wire/batch_bytes.h"

namespace forebay::prep {

class BatchFolder;

// A batch's file in the folder. The destructor has the file removed.
class BatchFile {
 public:
  ~BatchFile();
  BatchFile(const BatchFile&) = delete;
  BatchFile& operator=(const BatchFile&) = delete;
  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }

 private:
  friend class BatchFolder;
  explicit BatchFile(std::shared_ptr<BatchFolder> folder) : folder_(std::move(folder)) {}

  const std::shared_ptr<BatchFolder> folder_;
  std::string name_ = {};  // empty: there is no file yet
  uint64_t bytes_ = 0;     // its size now, or once it is written
};

// Any thread may call anything. A thread of its own removes files, so that nobody waits for that.
class BatchFolder : public std::enable_shared_from_this<BatchFolder> {
 public:
  // Makes a folder of its own in the existing folder `parent`, and removes the folders of prep
  // servers that were killed. All files together have at most `bytes_max` bytes. Errors: kInvalid
  // if `parent` is not a folder; those of io::ScratchFiles::open().
  static Result<std::shared_ptr<BatchFolder>> open(const std::string& parent, uint64_t bytes_max);

  ~BatchFolder();

  const std::string& path() const { return files_->folder(); }
  const std::string& mark() const { return mark_; }
  // Writes a batch. If it needs the room of files that are being removed, it waits for their
  // removal first. Returns null if there is no room, or if writing fails; the next write() tries
  // again. `over` is a file that nobody reads any longer, or null: the batch overwrites it under a
  // new name, because new pages or blocks cost the system more time than those of an existing file.
  std::unique_ptr<BatchFile> write(const BatchBytes& batch, std::unique_ptr<BatchFile> over)
      EXCLUDES(mutex_);
  // Why a batch could not be written; empty if all were.
  std::string trouble() const EXCLUDES(mutex_);

 private:
  friend class BatchFile;
  explicit BatchFolder(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  void remove_files() EXCLUDES(mutex_);

  Status put(const BatchBytes& batch, BatchFile* file) const;
  bool take_room(uint64_t bytes, BatchFile* file) EXCLUDES(mutex_);
  void remove(const BatchFile& file) EXCLUDES(mutex_);

  const uint64_t bytes_max_;
  std::unique_ptr<io::ScratchFiles> files_;
  std::string mark_;
  mutable base::Mutex mutex_;
  base::CondVar removed_;
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t going_bytes_ GUARDED_BY(mutex_) = 0;  // of these, bytes of files in to_remove_
  std::string trouble_ GUARDED_BY(mutex_);
  base::Queue<std::pair<std::string, uint64_t>> to_remove_{SIZE_MAX};  // name and bytes
  base::Crew remover_;
};

}  // namespace forebay::prep
