// For tests: another origin's files, as if they were remote. Reads can be delayed or damaged, and
// refuse a file that has changed since it was listed.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <stop_token>
#include <thread>

#include "base/mutex.h"
#include "io/origin.h"

namespace forebay::io {

// Any thread may call anything.
class FarOrigin final : public Origin {
 public:
  // `below` must outlive this.
  explicit FarOrigin(const Origin& below) : below_(below) {}

  // From here on reads of files whose paths end with `end` wait until they are stopped.
  void hold(std::string_view end) {
    base::MutexLock lock(mutex_);
    held_end_ = end;
  }
  // Waits until a read is held.
  void wait_for_reader() const {
    base::MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.wait(mutex_);
  }
  // From here on the first `reads` reads of each file whose path ends with `end` get a wrong byte.
  void damage(std::string_view end, int reads) {
    base::MutexLock lock(mutex_);
    damaged_end_ = end;
    damages_ = reads;
    reads_.clear();
  }
  // From here on nothing is listed, like on a web server.
  void refuse_to_list() { lists_ = false; }
  // From here on stat() takes some milliseconds.
  void answer_late() { is_late_ = true; }
  // How many calls asked for a file's identity so far, and how many calls of stat() waited at the
  // same time.
  uint64_t questions() const { return questions_; }
  uint64_t questions_at_once() const { return asking_most_; }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path,
                                             const OpenOptions& options) const override {
    if (options.known) return std::make_unique<File>(*this, path, *options.known);
    ++questions_;
    ASSIGN_OR_RETURN(const auto file, below_.open(path, options));
    return std::make_unique<File>(*this, path, file->identity());
  }
  bool is_remote(const std::string&) const override { return true; }
  Result<std::vector<DirEntry>> list(const std::string& path) const override {
    if (lists_) return below_.list(path);
    return base::fail(base::Code::kUnsupported, "{}: the server does not list", path);
  }
  Result<FileInfo> stat(const std::string& path) const override {
    ++questions_;
    if (!is_late_) return below_.stat(path);
    const uint64_t asking = ++asking_;
    if (asking > asking_most_) asking_most_ = asking;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --asking_;
    return below_.stat(path);
  }
  std::string canonical(const std::string& path) const override { return below_.canonical(path); }

 private:
  class File final : public ReadableFile {
   public:
    File(const FarOrigin& origin, std::string path, Identity identity)
        : origin_(origin), path_(std::move(path)), identity_(std::move(identity)) {}
    const std::string& path() const override { return path_; }
    const Identity& identity() const override { return identity_; }
    Status read(uint64_t offset, MutableBytes out, const ReadOptions& options) const override {
      if (origin_.is_held(path_)) origin_.wait_for_stop(options.stop);
      RETURN_IF_ERROR(check_wanted(path_, options));
      ASSIGN_OR_RETURN(const auto file, origin_.below_.open(path_));
      const Identity& now = file->identity();
      if (now.size != identity_.size ||
          (identity_.modified_ns != 0 && now.modified_ns != identity_.modified_ns)) {
        return base::fail(base::Code::kIo, "{}: the file was replaced after it was listed", path_);
      }
      RETURN_IF_ERROR(file->read(offset, out, options));
      if (!out.empty() && origin_.is_damaged(path_)) out[out.size() / 2] ^= 1;
      return {};
    }

   private:
    const FarOrigin& origin_;
    const std::string path_;
    const Identity identity_;
  };

  bool is_held(const std::string& path) const {
    base::MutexLock lock(mutex_);
    return held_end_ && path.ends_with(*held_end_);
  }
  void wait_for_stop(const std::stop_token& stop) const {
    const std::stop_callback wake(stop, [this] {
      base::MutexLock lock(mutex_);
      changed_.notify_all();
    });
    base::MutexLock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    while (!stop.stop_requested()) changed_.wait(mutex_);
    --waiting_;
  }

  bool is_damaged(const std::string& path) const {
    base::MutexLock lock(mutex_);
    return path.ends_with(damaged_end_) && ++reads_[path] <= damages_;
  }

  const Origin& below_;
  std::atomic<bool> lists_ = true;
  std::atomic<bool> is_late_ = false;
  mutable std::atomic<uint64_t> questions_ = 0;
  mutable std::atomic<uint64_t> asking_ = 0;
  mutable std::atomic<uint64_t> asking_most_ = 0;
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable int waiting_ GUARDED_BY(mutex_) = 0;
  std::optional<std::string> held_end_ GUARDED_BY(mutex_);
  std::string damaged_end_ GUARDED_BY(mutex_);
  int damages_ GUARDED_BY(mutex_) = 0;
  mutable std::map<std::string, int> reads_ GUARDED_BY(mutex_);  // of the damaged files
};

}  // namespace forebay::io
