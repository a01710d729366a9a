#include "cache/pieces.h"

#include <algorithm>
#include <utility>

namespace forebay::cache {

std::map<size_t, std::vector<io::Range>> by_owner(const base::Sha256& file,
                                                  const std::vector<io::Range>& ranges,
                                                  std::span<const Member> members) {
  std::map<size_t, std::vector<io::Range>> parts;
  uint64_t known = UINT64_MAX;  // the piece whose owner is known
  size_t owner = SIZE_MAX;
  for (io::Range range : ranges) {
    size_t before = SIZE_MAX;
    bool goes_on = false;
    while (!range.out.empty()) {
      const uint64_t piece = range.offset / kPieceBytes;
      if (std::exchange(known, piece) != piece) owner = owner_of(file, piece, members);
      const auto step = static_cast<size_t>(
          std::min<uint64_t>(range.out.size(), (piece + 1) * kPieceBytes - range.offset));
      std::vector<io::Range>& part = parts[owner];
      if (goes_on && before == owner) {
        io::Range& last = part.back();
        last.out = {last.out.data(), last.out.size() + step};
      } else {
        part.push_back({range.offset, range.out.first(step), range.again});
      }
      range = {range.offset + step, range.out.subspan(step), range.again};
      goes_on = true;
      before = owner;
    }
  }
  return parts;
}

}  // namespace forebay::cache
