#include "prep/left_files.h"

#include "io/machine.h"

namespace forebay::prep {

using base::MutexLock;

namespace {

// A host that has not read a file by then is gone.
constexpr int64_t kToldNs = 60'000'000'000;

}  // namespace

// The files themselves are removed without the lock.
template <class Goes>
void LeftFiles::drop_where(const Goes& goes) {
  std::vector<Left> dropped;
  MutexLock lock(mutex_);
  std::erase_if(files_, [&](auto& left) {
    const bool is_over = goes(left.first, left.second);
    if (is_over) dropped.push_back(std::move(left.second));
    return is_over;
  });
}

std::optional<FileAnswer> LeftFiles::leave(const Step& step, const BatchBytes& batch,
                                           bool is_kept) {
  if (folder_ == nullptr) return std::nullopt;
  const int64_t now_ns = io::monotonic_ns();
  drop_where([&](const Step&, const Left& left) {
    return !left.is_kept && left.told_ns < now_ns - kToldNs;
  });
  auto file = folder_->write(batch);
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
  drop_where([&](const Step& one, const Left&) { return one == step; });
}

void LeftFiles::drop_kept() {
  drop_where([](const Step&, const Left& left) { return left.is_kept; });
}

}  // namespace forebay::prep
