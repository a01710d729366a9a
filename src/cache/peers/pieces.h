// Cuts the ranges of a read by the members that own them.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "cache/members/members.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::cache {

using io::serve::WantedRange;

// `length` bytes of the range, from its byte number `begin` on.
inline io::Range part_of(const io::Range& range, uint64_t begin, uint64_t length) {
  return {range.offset + begin, range.out.subspan(begin, length), range.again};
}
inline WantedRange part_of(const WantedRange& range, uint64_t begin, uint64_t length) {
  return {range.offset + begin, length, range.again};
}

// The parts of the ranges by the index of their owner; SIZE_MAX if no member has room. Adjacent
// pieces with the same owner stay together.
std::map<size_t, std::vector<io::Range>> by_owner(const base::Sha256& file,
                                                  const std::vector<io::Range>& ranges,
                                                  std::span<const Member> members);
std::map<size_t, std::vector<WantedRange>> by_owner(const base::Sha256& file,
                                                    const std::vector<WantedRange>& ranges,
                                                    std::span<const Member> members);

}  // namespace forebay::cache
