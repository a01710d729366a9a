// Batches that a prep server leaves as files in a folder which hosts read too: one on shared
// storage, or in the memory of a machine that is both.
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

// A batch in the folder, which is removed with this.
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
  uint64_t bytes_ = 0;     // that it has, or will have
};

// Any thread may call anything. A file's owner need not wait until it is removed.
class BatchFolder : public std::enable_shared_from_this<BatchFolder> {
 public:
  // Makes a folder of its own in `parent`, which is there, and removes those of prep servers that
  // were killed. At most `bytes_max` are kept at a time. Errors: those of io::ScratchFiles::open().
  static Result<std::shared_ptr<BatchFolder>> open(const std::string& parent, uint64_t bytes_max);

  ~BatchFolder();

  const std::string& path() const { return files_->folder(); }
  const std::string& mark() const { return mark_; }
  // Writes a batch, and waits before for files that are being removed if it needs their room. Null
  // where there is no room for it, or where writing fails, which is tried again with the next one.
  // `over` is a file that nobody reads any more, or null: the batch takes its place under another
  // name, because new pages or blocks cost the system more time than those of a file that is there.
  std::unique_ptr<BatchFile> write(const BatchBytes& batch, std::unique_ptr<BatchFile> over)
      EXCLUDES(mutex_);
  // Why a batch could not be written; empty: all could.
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
  uint64_t going_bytes_ GUARDED_BY(mutex_) = 0;  // of these, of files in to_remove_
  std::string trouble_ GUARDED_BY(mutex_);
  base::Queue<std::pair<std::string, uint64_t>> to_remove_{SIZE_MAX};  // name and bytes
  base::Crew remover_;
};

}  // namespace forebay::prep
