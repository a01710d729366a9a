#include "cache/peers/handed_over.h"

#include <algorithm>
#include <iterator>

namespace forebay::cache {

std::vector<HandedOver::Part> HandedOver::find(const FileId& file, uint64_t offset,
                                               uint64_t length) const {
  std::vector<Part> parts;
  const uint64_t end = offset + length;
  const auto add = [&](uint64_t until, const std::string& member) {
    if (offset >= until) return;
    parts.push_back({offset, until - offset, member});
    offset = until;
  };
  if (const auto found = files_.find(file); found != files_.end()) {
    auto span = found->second.upper_bound(offset);
    if (span != found->second.begin()) --span;
    for (; span != found->second.end() && span->first < end; ++span) {
      if (span->second.end <= offset) continue;
      add(std::max(offset, span->first), {});
      add(std::min(end, span->second.end), span->second.member);
    }
  }
  add(end, {});
  return parts;
}

bool HandedOver::add(const FileId& file, uint64_t offset, uint64_t length,
                     const std::string& member) {
  if (spans_ >= kRangesMost) return false;
  Spans& spans = files_[file];
  uint64_t end = offset + length;
  cut(spans, offset, end);
  bytes_ += length;
  auto next = spans.lower_bound(offset);
  if (next != spans.end() && next->first == end && next->second.member == member) {
    end = next->second.end;
    next = spans.erase(next);
    --spans_;
  }
  if (next != spans.begin()) {
    const auto before = std::prev(next);
    if (before->second.end == offset && before->second.member == member) {
      before->second.end = end;
      return true;
    }
  }
  spans[offset] = {end, member};
  ++spans_;
  return true;
}

void HandedOver::remove(const FileId& file, uint64_t offset, uint64_t length) {
  const auto found = files_.find(file);
  if (found != files_.end()) cut(found->second, offset, offset + length);
}

void HandedOver::keep_only(const std::set<std::string>& members) {
  for (auto& [file, spans] : files_) {
    for (auto at = spans.begin(); at != spans.end();) {
      if (members.contains(at->second.member)) {
        ++at;
        continue;
      }
      bytes_ -= at->second.end - at->first;
      --spans_;
      at = spans.erase(at);
    }
  }
  std::erase_if(files_, [](const auto& one) { return one.second.empty(); });
}

// Takes [offset, end) out of all spans.
void HandedOver::cut(Spans& spans, uint64_t offset, uint64_t end) {
  auto at = spans.upper_bound(offset);
  if (at != spans.begin()) --at;
  while (at != spans.end() && at->first < end) {
    const auto [begin, span] = *at;
    if (span.end <= offset) {
      ++at;
      continue;
    }
    at = spans.erase(at);
    --spans_;
    bytes_ -= std::min(span.end, end) - std::max(begin, offset);
    if (begin < offset) {
      spans[begin] = {offset, span.member};
      ++spans_;
    }
    if (span.end > end) {
      spans[end] = span;
      ++spans_;
    }
  }
}

}  // namespace forebay::cache
