#include "cache/peers/pieces.h"

#include <algorithm>

namespace forebay::cache {

namespace {

uint64_t length_of(const io::Range& range) { return range.out.size(); }
uint64_t length_of(const WantedRange& range) { return range.length; }

template <class AnyRange>
std::map<size_t, std::vector<AnyRange>> cut_by_owner(const base::Sha256& file,
                                                     const std::vector<AnyRange>& ranges,
                                                     std::span<const Member> members) {
  std::map<size_t, std::vector<AnyRange>> parts;
  uint64_t known = UINT64_MAX;  // the piece whose owner is known
  size_t owner = SIZE_MAX;
  for (const AnyRange& range : ranges) {
    const uint64_t length = length_of(range);
    uint64_t begin = 0;  // bytes before are in parts
    for (uint64_t at = 0; at < length;) {
      const uint64_t piece = (range.offset + at) / kPieceBytes;
      if (piece != known) {
        const size_t next = owner_of(file, piece, members);
        if (next != owner && at > begin) {
          parts[owner].push_back(part_of(range, begin, at - begin));
          begin = at;
        }
        owner = next;
        known = piece;
      }
      at = std::min(length, (piece + 1) * kPieceBytes - range.offset);
    }
    if (begin < length) parts[owner].push_back(part_of(range, begin, length - begin));
  }
  return parts;
}

}  // namespace

std::map<size_t, std::vector<io::Range>> by_owner(const base::Sha256& file,
                                                  const std::vector<io::Range>& ranges,
                                                  std::span<const Member> members) {
  return cut_by_owner(file, ranges, members);
}

std::map<size_t, std::vector<WantedRange>> by_owner(const base::Sha256& file,
                                                    const std::vector<WantedRange>& ranges,
                                                    std::span<const Member> members) {
  return cut_by_owner(file, ranges, members);
}

}  // namespace forebay::cache
