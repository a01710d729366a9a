// The machines of a cache as a list that a user gives, where no launcher tells them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace forebay::cache {

struct MemberList {
  Member own;                  // where this machine serves
  std::vector<Member> others;  // whether they are there is not known yet
};

// `entries` are ADDRESS:PORT of each machine, the same list on all of them; an IPv6 address stands
// in brackets. This machine's entry is the one whose address is among `addresses`, unless `own`
// names it: as the whole entry, or as its address. Errors: kInvalid.
Result<MemberList> parse_member_list(const std::vector<std::string>& entries,
                                     const std::string& own,
                                     std::span<const std::string> addresses);

// Sets where a cache's machine serves, and who else may be there. Errors: those of
// parse_member_list(); kInvalid without a secret.
Status use_member_list(const std::vector<std::string>& entries, const std::string& own,
                       CacheOptions* options);

// ADDRESS:PORT in its two parts. Errors: kInvalid where the address is no number.
Result<Member> parse_place(const std::string& text);

}  // namespace forebay::cache
