#include "prep/server/left_files.h"

#include "io/machine.h"

namespace forebay::prep {

using base::MutexLock;

namespace {

// A host that has not read a file after this time is taken to be gone.
constexpr int64_t kToldNs = 60'000'000'000;

}  // namespace

template <class Goes>
void LeftFiles::drop_where(const Goes& goes, bool is_read) {
  MutexLock lock(mutex_);
  for (auto at = files_.begin(); at != files_.end();) {
    if (!goes(at->first, at->second)) {
      ++at;
      continue;
    }
    if (is_read && spare_.size() < kSpareMost) spare_.push_back(std::move(at->second.file));
    at = files_.erase(at);
  }
}

std::unique_ptr<BatchFile> LeftFiles::take_spare() {
  MutexLock lock(mutex_);
  if (spare_.empty()) return nullptr;
  auto out = std::move(spare_.back());
  spare_.pop_back();
  return out;
}

std::optional<FileAnswer> LeftFiles::leave(const Step& step, const BatchBytes& batch,
                                           bool is_kept) {
  if (folder_ == nullptr) return std::nullopt;
  const int64_t now_ns = io::monotonic_ns();
  drop_where([&](const Step&,
                 const Left& left) { return !left.is_kept && left.told_ns < now_ns - kToldNs; },
             false);
  auto spare = take_spare();
  const bool had_spare = spare != nullptr;
  auto file = folder_->write(batch, std::move(spare));
  if (file == nullptr && had_spare) {
    {
      MutexLock lock(mutex_);
      spare_.clear();  // to free their room
    }
    file = folder_->write(batch, nullptr);
  }
  if (file == nullptr) return std::nullopt;
  FileAnswer answer{file->name(), file->bytes()};
  MutexLock lock(mutex_);
  files_.insert_or_assign(step, Left{std::move(file), is_kept, now_ns});
  return answer;
}

bool LeftFiles::keeps(const Step& step) {
  MutexLock lock(mutex_);
  const auto found = files_.find(step);
  return found != files_.end() && found->second.is_kept;
}

std::optional<FileAnswer> LeftFiles::tell(const Step& step) {
  MutexLock lock(mutex_);
  const auto found = files_.find(step);
  if (found == files_.end() || !found->second.is_kept) return std::nullopt;
  found->second.is_kept = false;
  found->second.told_ns = io::monotonic_ns();
  return FileAnswer{found->second.file->name(), found->second.file->bytes()};
}

void LeftFiles::drop(const Step& step) {
  drop_where([&](const Step& one, const Left&) { return one == step; }, true);
}

void LeftFiles::drop_kept() {
  drop_where([](const Step&, const Left& left) { return left.is_kept; }, true);
}

}  // namespace forebay::prep
