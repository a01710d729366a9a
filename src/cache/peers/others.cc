#include "cache/peers/others.h"

#include <algorithm>
#include <set>

#include "cache/held/extent_map.h"
#include "cache/peers/gather.h"
#include "cache/peers/pieces.h"
#include "io/machine.h"

namespace forebay::cache {

using base::Code;
using base::MutexLock;

namespace {

// How many members may hold a piece in place of its owner, in the order of owners_of().
constexpr size_t kChoices = 3;
// After so many questions in vain in a row, only one question in as many is asked.
constexpr uint32_t kInVain = 32;
// For so long a member that had no room is not asked for room again; twice as long each time.
constexpr int64_t kFullNs = 1'000'000'000;
constexpr int64_t kFullMostNs = 64 * kFullNs;
// Members are asked one after the other for so long at most: the process that asked this machine
// waits meanwhile.
constexpr int64_t kSearchNs = 1'000'000'000;

// Whether to skip this question.
bool is_hopeless(std::atomic<uint32_t>& in_vain) {
  const uint32_t times = in_vain;
  const bool is_hopeless = times > kInVain && times % kInVain != 0;
  if (is_hopeless) ++in_vain;
  return is_hopeless;
}

// The ranges, cut where pieces end.
std::vector<io::Range> cut_to_pieces(const std::vector<io::Range>& ranges) {
  std::vector<io::Range> cuts;
  for (const io::Range& range : ranges) {
    for (uint64_t at = 0; at < range.out.size(); at += cuts.back().out.size()) {
      const uint64_t left = kPieceBytes - (range.offset + at) % kPieceBytes;
      cuts.push_back(part_of(range, at, std::min(range.out.size() - at, left)));
    }
  }
  return cuts;
}

// Cuts the ranges so that blocks that they cover as a whole are marked as needed later, and partly
// covered blocks as needed soon, because the member may still need the other bytes of such a block.
std::vector<io::Range> later_in_whole_blocks(const std::vector<io::Range>& ranges) {
  std::vector<io::Range> cuts;
  for (const io::Range& range : ranges) {
    const uint64_t size = range.out.size();
    const uint64_t end = (range.offset + size) / kBlock * kBlock;
    const uint64_t first = std::min(size, base::round_up(range.offset, kBlock) - range.offset);
    const uint64_t last = end > range.offset + first ? end - range.offset : first;
    const auto add = [&](uint64_t from, uint64_t until, io::Again again) {
      if (from == until) return;
      cuts.push_back(part_of(range, from, until - from));
      cuts.back().again = again;
    };
    add(0, first, io::Again::kSoon);
    add(first, last, io::Again::kLater);
    add(last, size, io::Again::kSoon);
  }
  return cuts;
}

}  // namespace

// The members that owned these ranges before this machine came are those that would own them
// without it.
void Others::take_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done) {
  if (ranges.empty()) return done({});
  const std::vector<Member> others = members_();
  if (others.empty() || is_hopeless(asked_in_vain_)) return done(std::move(ranges));
  auto parts = by_owner(file->id, ranges, others);
  const uint64_t bytes = io::bytes_of(ranges);
  const auto gather = std::make_shared<ReadGather>(
      parts.size(), [this, bytes, done = std::move(done)](const Status&, Ranges rest) {
        asked_in_vain_ = io::bytes_of(rest) < bytes ? 0 : asked_in_vain_ + 1;
        done(std::move(rest));
      });
  for (auto& [owner, part] : parts) {
    if (owner == SIZE_MAX) {
      gather->finish({}, part);
      continue;
    }
    // From now on this machine is asked for these ranges, and the other member may drop them.
    peers_.read(others[owner], Peers::What::kHeld, file->target, file->file->identity().size,
                later_in_whole_blocks(part), options,
                [gather](const Status&, const Ranges& rest) { gather->finish({}, rest); });
  }
}

struct Others::Search {
  File file;
  std::vector<Member> others;
  io::ReadOptions options;
  int64_t until_ns = 0;
  bool asks_full = false;  // also members that had no room lately
  Rest done;
};

void Others::hand_over(const File& file, Ranges ranges, const io::ReadOptions& options, Rest done) {
  if (ranges.empty()) return done({});
  const auto search = std::make_shared<Search>(Search{.file = file,
                                                      .others = members_(),
                                                      .options = options,
                                                      .until_ns = io::monotonic_ns() + kSearchNs,
                                                      .done = std::move(done)});
  if (is_successor_ && !is_hopeless(searched_in_vain_)) {
    search->asks_full = true;
    const uint64_t bytes = io::bytes_of(ranges);
    search->done = [this, bytes, last = std::move(search->done)](Ranges rest) {
      searched_in_vain_ = io::bytes_of(rest) < bytes ? 0 : searched_in_vain_ + 1;
      last(std::move(rest));
    };
  }
  ask_next(search, cut_to_pieces(ranges), 0);
}

// In turn 0 the members that are known to hold ranges are asked, in turn i the i-th member in the
// order of owners_of().
void Others::ask_next(const std::shared_ptr<Search>& search, const Ranges& ranges, size_t turn) {
  if (io::monotonic_ns() >= search->until_ns) return search->done(ranges);
  std::map<size_t, Ranges> parts;
  Ranges others = ranges;
  for (; parts.empty() && turn <= kChoices; ++turn) {
    parts = whom_to_ask(*search, std::exchange(others, {}), turn, &others);
    if (parts.empty()) others = ranges;
  }
  if (parts.empty()) return search->done(ranges);
  const auto gather = std::make_shared<ReadGather>(
      parts.size() + 1, [this, search, turn](const Status&, const Ranges& rest) {
        if (rest.empty()) return search->done({});
        ask_next(search, rest, turn);
      });
  gather->finish({}, others);
  for (auto& [number, part] : parts) {
    const Member& member = search->others[number];
    const bool is_known = turn == 1;
    peers_.read(
        member, Peers::What::kHold, search->file->target, search->file->file->identity().size, part,
        search->options,
        [this, search, &member, part, is_known, gather](const Status& status, const Ranges& rest) {
          note_answer(*search, member, part, is_known, status);
          gather->finish({}, rest);
        });
  }
}

// The ranges by the index of the member that is asked for them in this turn; `others` receives the
// ranges for which no member is asked.
std::map<size_t, Others::Ranges> Others::whom_to_ask(const Search& search, const Ranges& ranges,
                                                     size_t turn, Ranges* others) {
  std::map<size_t, Ranges> parts;
  const std::vector<Member>& members = search.others;
  const int64_t now_ns = io::monotonic_ns();
  MutexLock lock(mutex_);
  if (turn == 0) {
    for (const io::Range& range : ranges) {
      for (const auto& [offset, length, id] :
           handed_over_.find(search.file->id, range.offset, range.out.size())) {
        const auto member = std::ranges::find(members, id, &Member::id);
        const bool is_known = !id.empty() && member != members.end();
        (is_known ? parts[static_cast<size_t>(member - members.begin())] : *others)
            .push_back(part_of(range, offset - range.offset, length));
      }
    }
    return parts;
  }
  bool is_any_free = search.asks_full;
  for (const Member& one : members) is_any_free = is_any_free || !is_full(one, now_ns);
  for (const io::Range& range : ranges) {
    const auto choices = is_any_free
                             ? owners_of(search.file->id, range.offset / kPieceBytes, members, turn)
                             : std::vector<size_t>();
    const bool is_there =
        choices.size() == turn && (search.asks_full || !is_full(members[choices.back()], now_ns));
    (is_there ? parts[choices.back()] : *others).push_back(range);
  }
  return parts;
}

bool Others::is_full(const Member& member, int64_t now_ns) const {
  const auto found = full_.find(member.id);
  return found != full_.end() && now_ns < found->second.until_ns;
}

void Others::note_answer(const Search& search, const Member& member, const Ranges& asked,
                         bool is_known, const Status& status) {
  MutexLock lock(mutex_);
  if (status.ok() && is_known) return;
  if (status.ok()) {
    full_.erase(member.id);
    for (const io::Range& range : asked) {
      handed_over_.add(search.file->id, range.offset, range.out.size(), member.id);
    }
    return;
  }
  if (status.code() != Code::kNotFound) return;
  for (const io::Range& range : asked) {
    handed_over_.remove(search.file->id, range.offset, range.out.size());
  }
  Full& full = full_[member.id];
  const int64_t now_ns = io::monotonic_ns();
  if (now_ns < full.until_ns) return;  // it was asked before it answered so
  full.for_ns = std::clamp(2 * full.for_ns, kFullNs, kFullMostNs);
  full.until_ns = now_ns + full.for_ns;
}

void Others::note_members(const std::vector<Member>& members) {
  asked_in_vain_ = 0;
  searched_in_vain_ = 0;
  std::set<std::string> ids;
  for (const Member& member : members) ids.insert(member.id);
  MutexLock lock(mutex_);
  full_.clear();
  handed_over_.keep_only(ids);
}

void Others::forget(const FileId& file, const std::string& target, uint64_t size,
                    const std::vector<WantedRange>& ranges) {
  std::map<std::string, std::vector<WantedRange>> held;  // by members' ids
  {
    MutexLock lock(mutex_);
    for (const WantedRange& range : ranges) {
      for (const auto& [offset, length, id] : handed_over_.find(file, range.offset, range.length)) {
        if (!id.empty()) held[id].push_back({offset, length});
      }
      handed_over_.remove(file, range.offset, range.length);
    }
  }
  if (held.empty()) return;
  for (const Member& member : members_()) {
    const auto found = held.find(member.id);
    if (found != held.end()) peers_.report_wrong(member, target, size, found->second);
  }
}

uint64_t Others::handed_over_bytes() const {
  MutexLock lock(mutex_);
  return handed_over_.bytes();
}

}  // namespace forebay::cache
