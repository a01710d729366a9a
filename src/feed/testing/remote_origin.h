// For tests: a remote origin. It answers in a thread of its own, out of order, records what it is
// asked for, and may damage what it sends.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/random.h"
#include "io/origin.h"

namespace forebay::feed {

// Any thread may call anything.
class RemoteOrigin final : public io::Origin {
 public:
  struct Asked {
    std::string path;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;  // offset and length
  };

  // Answers with the bytes of `below`, which must outlive this. The order of answers is drawn by
  // `seed`.
  explicit RemoteOrigin(const io::Origin& below, uint64_t seed = 1)
      : below_(below), random_(seed, base::Purpose::kTest) {
    answering_.start(1, [this](uint32_t) { answer(); });
  }
  ~RemoteOrigin() override {
    base::MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path,
                                                 const io::OpenOptions& options) const override {
    ASSIGN_OR_RETURN(auto file, below_.open(path, options));
    return std::make_unique<File>(*this, std::move(file));
  }
  bool is_remote(const std::string&) const override { return true; }
  size_t ranges_max(const std::string&) const override {
    base::MutexLock lock(mutex_);
    return is_link_varying_ && random_.below(2) == 0 ? 1 : SIZE_MAX;
  }
  io::Traffic traffic(const std::string&) const override {
    base::MutexLock lock(mutex_);
    io::Traffic traffic{.requests = asked_.size()};
    for (const Asked& one : asked_) traffic.bytes_sent += one.ranges.size();
    if (!is_link_varying_) return traffic;
    traffic.latency_s = static_cast<double>(random_.below(1000)) / 1e3;
    traffic.bytes_per_s = static_cast<double>(random_.below(1'000'000'000));
    return traffic;
  }
  Result<std::vector<io::DirEntry>> list(const std::string& path) const override {
    return below_.list(path);
  }
  Result<io::FileInfo> stat(const std::string& path) const override { return below_.stat(path); }
  std::string canonical(const std::string& path) const override { return path; }

  // From now on the origin answers nothing, until it is called with false.
  void hold(bool held) {
    base::MutexLock lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  // From now on each question about the link gets a different answer, as if the link had just
  // changed.
  void vary_link() {
    base::MutexLock lock(mutex_);
    is_link_varying_ = true;
  }
  // Damages the file's byte at this offset in the next `times` answers that have it.
  void damage(const std::string& path, uint64_t offset, int times) {
    base::MutexLock lock(mutex_);
    damage_[path][offset] = times;
  }

  // After `after` further good answers comes one with this error; later answers are good again.
  void fail(size_t after, base::Code code) {
    base::MutexLock lock(mutex_);
    until_failure_ = after;
    failure_ = code;
  }

  std::vector<Asked> asked() const {
    base::MutexLock lock(mutex_);
    return asked_;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const Asked& one : asked()) {
      for (const auto& range : one.ranges) sum += range.second;
    }
    return sum;
  }
  void forget() {
    base::MutexLock lock(mutex_);
    asked_.clear();
  }
  void wait_for_requests(size_t count) const {
    base::MutexLock lock(mutex_);
    while (asked_.size() < count) changed_.wait(mutex_);
  }

 private:
  struct Request {
    const io::ReadableFile* file = nullptr;
    std::vector<io::Range> ranges;
    io::ReadOptions options;
    std::function<void(Status)> done;
    std::shared_ptr<std::stop_callback<std::function<void()>>> wake = {};
  };

  class File final : public io::ReadableFile {
   public:
    File(const RemoteOrigin& origin, std::unique_ptr<io::ReadableFile> below)
        : origin_(origin), below_(std::move(below)) {}
    const std::string& path() const override { return below_->path(); }
    const io::Identity& identity() const override { return below_->identity(); }
    Status read(uint64_t offset, io::MutableBytes out,
                const io::ReadOptions& options) const override {
      base::Mutex mutex;
      base::CondVar changed;
      std::optional<Status> outcome;
      start({{.offset = offset, .out = out}}, options, [&](Status status) {
        base::MutexLock lock(mutex);
        outcome = std::move(status);
        changed.notify_all();
      });
      base::MutexLock lock(mutex);
      while (!outcome) changed.wait(mutex);
      return *outcome;
    }
    void start(std::vector<io::Range> ranges, const io::ReadOptions& options,
               std::function<void(Status)> done) const override {
      origin_.ask({below_.get(), std::move(ranges), options, std::move(done)});
    }

   private:
    const RemoteOrigin& origin_;
    const std::unique_ptr<io::ReadableFile> below_;
  };

  void ask(Request request) const {
    Asked asked{.path = request.file->path(), .ranges = {}};
    uint64_t end = 0;
    for (const io::Range& range : request.ranges) {
      FOREBAY_CHECK(range.offset >= end && !range.out.empty());  // ReadableFile::start()
      end = range.offset + range.out.size();
      asked.ranges.emplace_back(range.offset, range.out.size());
    }
    request.wake =
        std::make_shared<std::stop_callback<std::function<void()>>>(request.options.stop, [this] {
          base::MutexLock lock(mutex_);
          changed_.notify_all();
        });
    base::MutexLock lock(mutex_);
    asked_.push_back(std::move(asked));
    waiting_.push_back(std::move(request));
    changed_.notify_all();
  }

  void answer() {
    for (;;) {
      Request request;
      {
        base::MutexLock lock(mutex_);
        while (!ended_ && !may_answer()) changed_.wait(mutex_);
        if (ended_) return;
        const auto next = static_cast<ptrdiff_t>(random_.below(waiting_.size()));
        request = std::move(waiting_[static_cast<size_t>(next)]);
        waiting_.erase(waiting_.begin() + next);
      }
      request.done(fill(request));
    }
  }
  bool may_answer() const REQUIRES(mutex_) {
    if (waiting_.empty()) return false;
    return !held_ || std::ranges::any_of(waiting_, [](const Request& request) {
      return request.options.stop.stop_requested();
    });
  }
  Status fill(const Request& request) const {
    if (request.options.stop.stop_requested()) return base::fail(base::Code::kCancelled, "stopped");
    {
      base::MutexLock lock(mutex_);
      if (failure_ != base::Code::kOk && until_failure_-- == 0) {
        return base::fail(std::exchange(failure_, base::Code::kOk), "the connection dropped");
      }
    }
    for (const io::Range& range : request.ranges) {
      RETURN_IF_ERROR(request.file->read(range.offset, range.out));
      base::MutexLock lock(mutex_);
      auto& damage = damage_[request.file->path()];
      const uint64_t end = range.offset + range.out.size();
      for (auto at = damage.lower_bound(range.offset); at != damage.end() && at->first < end;
           ++at) {
        if (at->second-- > 0) range.out[at->first - range.offset] ^= 0x10;
      }
    }
    return {};
  }

  const io::Origin& below_;
  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable base::Random random_ GUARDED_BY(mutex_);
  mutable std::vector<Asked> asked_ GUARDED_BY(mutex_);
  mutable std::vector<Request> waiting_ GUARDED_BY(mutex_);
  // How many more answers are damaged, by path and offset.
  mutable std::map<std::string, std::map<uint64_t, int>> damage_ GUARDED_BY(mutex_);
  mutable size_t until_failure_ GUARDED_BY(mutex_) = 0;
  mutable base::Code failure_ GUARDED_BY(mutex_) = base::Code::kOk;
  bool held_ GUARDED_BY(mutex_) = false;
  bool is_link_varying_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  base::Crew answering_;  // ends first, because its thread uses all of the above
};

}  // namespace forebay::feed
