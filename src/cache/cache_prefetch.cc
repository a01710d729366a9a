// Prefetching: each owner is asked to fetch the ranges that it shall hold.
#include <algorithm>

#include "base/limits.h"
#include "cache/cache.h"
#include "cache/peers/pieces.h"

namespace forebay::cache {

using base::MutexLock;

namespace {

// Calls `done` once, when all questions are answered, with the answer that comes last in the enum.
class Answers {
 public:
  Answers(size_t parts, std::function<void(io::PrefetchOutcome)> done)
      : left_(parts), done_(std::move(done)) {}
  void add(io::PrefetchOutcome answer) {
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
  io::PrefetchOutcome last_ GUARDED_BY(mutex_) = io::PrefetchOutcome::kKept;
  const std::function<void(io::PrefetchOutcome)> done_;
};

// What one request asks a member for.
struct Question {
  size_t owner = 0;
  std::vector<WantedRange> ranges;
};

std::vector<Question> questions_for(const FileId& file, const std::vector<WantedRange>& ranges,
                                    const std::vector<Member>& members) {
  std::vector<Question> questions;
  for (const auto& [owner, part] : by_owner(file, ranges, members)) {
    for (size_t i = 0; i < part.size(); ++i) {
      if (i % base::kHttpRangesMax == 0) questions.push_back({owner, {}});
      questions.back().ranges.push_back(part[i]);
    }
  }
  return questions;
}

}  // namespace

void Cache::prefetch(const CachedFile& file, const std::vector<WantedRange>& ranges,
                     const io::ReadOptions& options,
                     std::function<void(io::PrefetchOutcome)> done) {
  const auto [members, own, share] = owners();
  const auto questions = questions_for(file.id, ranges, *members);
  if (questions.empty()) return done(io::PrefetchOutcome::kKept);
  const auto answers = std::make_shared<Answers>(questions.size(), std::move(done));
  for (const auto& [owner, part] : questions) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (share != nullptr && member != nullptr && member->id == own) {
      answers->add(share->prefetch(file.target, part));
    } else if (member == nullptr || !peers_->may_ask(*member)) {
      answers->add(io::PrefetchOutcome::kFull);
    } else {
      peers_->prefetch(*member, file.target, part, options,
                       [answers](io::PrefetchOutcome answer) { answers->add(answer); });
    }
  }
}

}  // namespace forebay::cache
