// The ranges of a read by the members that own them.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "cache/members.h"
#include "io/origin.h"

namespace forebay::cache {

// By the number of the member; SIZE_MAX where none has room. Parts that go on at the next piece
// with the same owner stay together.
std::map<size_t, std::vector<io::Range>> by_owner(const base::Sha256& file,
                                                  const std::vector<io::Range>& ranges,
                                                  std::span<const Member> members);

}  // namespace forebay::cache
