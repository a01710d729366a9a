// What the cache fetches before somebody reads it: each owner is asked for what it shall hold.
#include <algorithm>
#include <map>

#include "cache/cache.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Calls `done` once, when all owners have answered, with the answer that asks for most patience.
class Answers {
 public:
  Answers(size_t parts, std::function<void(io::Ahead)> done)
      : left_(parts), done_(std::move(done)) {}
  void add(io::Ahead answer) {
    {
      MutexLock lock(mutex_);
      last_ = std::max(last_, answer);
      if (--left_ > 0) return;
      answer = last_;
    }
    done_(answer);
  }

 private:
  base::Mutex mutex_;
  size_t left_ GUARDED_BY(mutex_);
  io::Ahead last_ GUARDED_BY(mutex_) = io::Ahead::kKept;
  const std::function<void(io::Ahead)> done_;
};

std::map<size_t, std::vector<WantedRange>> wanted_by_owner(const FileId& file,
                                                           const std::vector<WantedRange>& ranges,
                                                           const std::vector<Member>& members) {
  std::map<size_t, std::vector<WantedRange>> parts;
  for (WantedRange range : ranges) {
    while (range.length > 0) {
      const uint64_t piece = range.offset / kPieceBytes;
      const uint64_t step = std::min(range.length, (piece + 1) * kPieceBytes - range.offset);
      parts[owner_of(file, piece, members)].push_back({range.offset, step});
      range.offset += step;
      range.length -= step;
    }
  }
  return parts;
}

}  // namespace

void Cache::fetch_ahead(const CachedFile& file, const std::vector<WantedRange>& ranges,
                        const io::ReadOptions& options, std::function<void(io::Ahead)> done) {
  Members members;
  std::string own;
  Share* share = nullptr;
  {
    MutexLock lock(mutex_);
    members = members_;
    own = machine_.id;
    share = share_.get();
  }
  const auto parts = wanted_by_owner(file.id, ranges, *members);
  if (parts.empty()) return done(io::Ahead::kKept);
  const auto answers = std::make_shared<Answers>(parts.size(), std::move(done));
  for (const auto& [owner, part] : parts) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (member == nullptr) {
      answers->add(io::Ahead::kFull);
    } else if (share != nullptr && member->id == own) {
      answers->add(share->fetch_ahead(file.target, part));
    } else if (!peers_->may_ask(*member)) {
      answers->add(io::Ahead::kBusy);
    } else {
      peers_->fetch_ahead(*member, file.target, part, options,
                          [answers](io::Ahead answer) { answers->add(answer); });
    }
  }
}

}  // namespace forebay::cache
