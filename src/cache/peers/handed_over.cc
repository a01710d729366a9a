#include "cache/peers/handed_over.h"

#include <algorithm>
#include <iterator>

namespace forebay::cache {

std::vector<HandedOver::HeldPiece> HandedOver::find(const FileId& file, uint64_t offset,
                                                    uint64_t length) const {
  std::vector<HeldPiece> parts;
  const uint64_t end = offset + length;
  const auto add = [&](uint64_t until, const std::string& member) {
    if (offset >= until) return;
    parts.push_back({offset, until - offset, member});
    offset = until;
  };
  if (const auto found = files_.find(file); found != files_.end()) {
    auto holder = found->second.upper_bound(offset);
    if (holder != found->second.begin()) --holder;
    for (; holder != found->second.end() && holder->first < end; ++holder) {
      if (holder->second.end <= offset) continue;
      add(std::max(offset, holder->first), {});
      add(std::min(end, holder->second.end), holder->second.member);
    }
  }
  add(end, {});
  return parts;
}

bool HandedOver::add(const FileId& file, uint64_t offset, uint64_t length,
                     const std::string& member) {
  if (holders_ >= kRangesMost) return false;
  Holders& holders = files_[file];
  uint64_t end = offset + length;
  cut(holders, offset, end);
  bytes_ += length;
  auto next = holders.lower_bound(offset);
  if (next != holders.end() && next->first == end && next->second.member == member) {
    end = next->second.end;
    next = holders.erase(next);
    --holders_;
  }
  if (next != holders.begin()) {
    const auto before = std::prev(next);
    if (before->second.end == offset && before->second.member == member) {
      before->second.end = end;
      return true;
    }
  }
  holders[offset] = {end, member};
  ++holders_;
  return true;
}

void HandedOver::remove(const FileId& file, uint64_t offset, uint64_t length) {
  const auto found = files_.find(file);
  if (found != files_.end()) cut(found->second, offset, offset + length);
}

void HandedOver::keep_only(const std::set<std::string>& members) {
  for (auto& [file, holders] : files_) {
    for (auto at = holders.begin(); at != holders.end();) {
      if (members.contains(at->second.member)) {
        ++at;
        continue;
      }
      bytes_ -= at->second.end - at->first;
      --holders_;
      at = holders.erase(at);
    }
  }
  std::erase_if(files_, [](const auto& one) { return one.second.empty(); });
}

// Removes [offset, end) from the ranges of all holders.
void HandedOver::cut(Holders& holders, uint64_t offset, uint64_t end) {
  auto at = holders.upper_bound(offset);
  if (at != holders.begin()) --at;
  while (at != holders.end() && at->first < end) {
    const auto [begin, holder] = *at;
    if (holder.end <= offset) {
      ++at;
      continue;
    }
    at = holders.erase(at);
    --holders_;
    bytes_ -= std::min(holder.end, end) - std::max(begin, offset);
    if (begin < offset) {
      holders[begin] = {offset, holder.member};
      ++holders_;
    }
    if (holder.end > end) {
      holders[end] = holder;
      ++holders_;
    }
  }
}

}  // namespace forebay::cache
