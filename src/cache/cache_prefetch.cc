// Prefetching: each owner is asked to fetch the ranges that it shall hold.
#include <algorithm>

#include "base/limits.h"
#include "cache/cache.h"
#include "cache/peers/gather.h"
#include "cache/peers/pieces.h"

namespace forebay::cache {

namespace {

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
  // The answer that is last in the order of the enum counts for all.
  const auto answers = std::make_shared<Gather<io::PrefetchOutcome>>(
      questions.size(), io::PrefetchOutcome::kKept, std::move(done));
  const auto add = [answers](io::PrefetchOutcome answer) {
    answers->finish([answer](io::PrefetchOutcome& last) { last = std::max(last, answer); });
  };
  for (const auto& [owner, part] : questions) {
    const Member* const member = owner < members->size() ? &(*members)[owner] : nullptr;
    if (share != nullptr && member != nullptr && member->id == own) {
      add(share->prefetch(file.target, part));
    } else if (member == nullptr || !peers_->may_ask(*member)) {
      add(io::PrefetchOutcome::kFull);
    } else {
      peers_->prefetch(*member, file.target, part, options, add);
    }
  }
}

}  // namespace forebay::cache
