// The batches of a job that the prep server has left as files in its folder (batch_folder.h).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "prep/server/batch_folder.h"
#include "prep/wire/answers.h"

namespace forebay::prep {

// Any thread may call anything.
class LeftFiles {
 public:
  using Step = std::pair<uint64_t, uint64_t>;  // epoch, and step in it

  // If `folder` is null, no file is ever left.
  explicit LeftFiles(std::shared_ptr<BatchFolder> folder) : folder_(std::move(folder)) {}

  // Leaves a batch as a file. It stays until the host has read it (drop()), or until a minute after
  // the host was told of it: now, or for a kept batch when the host asks for it (tell()). Returns
  // nothing if there is no folder, or no room in it.
  std::optional<FileAnswer> leave(const Step& step, const BatchBytes& batch, bool is_kept)
      EXCLUDES(mutex_);
  bool keeps(const Step& step) EXCLUDES(mutex_);
  // The file of a kept step, for the host that asks for it.
  std::optional<FileAnswer> tell(const Step& step) EXCLUDES(mutex_);
  void drop(const Step& step) EXCLUDES(mutex_);
  void drop_kept() EXCLUDES(mutex_);

 private:
  struct Left {
    std::unique_ptr<BatchFile> file;
    bool is_kept = false;
    int64_t told_ns = 0;
  };

  // How many files that have been read are kept, to be overwritten by the next batches.
  static constexpr size_t kSpareMost = 2;

  template <class Goes>
  void drop_where(const Goes& goes, bool is_read) EXCLUDES(mutex_);
  std::unique_ptr<BatchFile> take_spare() EXCLUDES(mutex_);

  const std::shared_ptr<BatchFolder> folder_;
  base::Mutex mutex_;
  std::map<Step, Left> files_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<BatchFile>> spare_ GUARDED_BY(mutex_);
};

}  // namespace forebay::prep
