#include "feed/read/needed_next.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace forebay::feed {

namespace {

// A shorter part may share its blocks with other parts that are needed soon.
constexpr uint64_t kLongPartBytes = 4 * kKeptBlockBytes;

// The whole blocks of a range; none of a short one.
FileRange whole_blocks(const FileRange& range) {
  const uint64_t begin = base::round_up(range.offset, kKeptBlockBytes);
  const uint64_t end = (range.offset + range.length) / kKeptBlockBytes * kKeptBlockBytes;
  return {.offset = begin, .length = end > begin ? end - begin : 0};
}

uint64_t end_of(const FileRange& range) { return range.offset + range.length; }

// The bytes of `read` that are needed soon, if the next epoch needs `needed`. Blocks of which only
// some bytes are needed are worth less than others, and so are blocks of which only some bytes are
// read.
FileRange soon_of(const FileRange& read, const FileRange& needed) {
  const FileRange blocks = whole_blocks(needed);
  const uint64_t begin = std::max(read.offset, blocks.offset);
  const uint64_t end = std::min(end_of(read), end_of(blocks));
  const FileRange soon{.offset = begin, .length = end > begin ? end - begin : 0};
  return soon.length >= kLongPartBytes ? whole_blocks(soon) : soon;
}

void add_part(size_t run, uint64_t begin, uint64_t end, io::Again again,
              std::vector<RunPiece>* parts) {
  if (begin >= end) return;
  const bool goes_on = !parts->empty() && parts->back().run == run && parts->back().again == again;
  if (goes_on) {
    parts->back().range.length = end - parts->back().range.offset;
  } else {
    parts->push_back({run, {.offset = begin, .length = end - begin}, again});
  }
}

}  // namespace

std::vector<RunPiece> cut_runs(std::span<const ChunkRun> runs,
                               std::vector<WantedBytes> needed_next) {
  const std::vector<ChunkRun> needed = join_runs(needed_next, kKeptBlockBytes);
  std::vector<RunPiece> parts;
  bool are_all_needed = true;
  auto next = needed.begin();
  for (size_t run = 0; run < runs.size(); ++run) {
    const auto& [chunk, range] = runs[run];
    uint64_t at = range.offset;
    const uint64_t end = end_of(range);
    const auto ends_before = [&](const ChunkRun& one) {
      return std::pair(one.chunk, end_of(one.range)) <= std::pair(chunk, at);
    };
    const auto begins_before = [&](const ChunkRun& one) {
      return std::pair(one.chunk, one.range.offset) < std::pair(chunk, end);
    };
    while (next != needed.end() && ends_before(*next)) ++next;
    are_all_needed = are_all_needed && next != needed.end() && next->chunk == chunk &&
                     next->range.offset <= at && end <= end_of(next->range);
    for (auto one = next; one != needed.end() && begins_before(*one); ++one) {
      const FileRange soon = soon_of({at, end - at}, one->range);
      if (soon.length == 0) continue;
      add_part(run, at, soon.offset, io::Again::kLater, &parts);
      at = end_of(soon);
      add_part(run, soon.offset, at, io::Again::kSoon, &parts);
    }
    add_part(run, at, end, io::Again::kLater, &parts);
  }
  if (are_all_needed) parts.clear();
  return parts;
}

}  // namespace forebay::feed
