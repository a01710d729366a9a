// The machines of a cache as a list that a user gives, because no launcher does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace forebay::cache {

struct MemberList {
  Member own;                  // this machine's entry
  std::vector<Member> others;  // the other machines, running or not
};

// `entries` are ADDRESS:PORT of each machine, with IPv6 addresses in brackets; all machines have
// the same list. This machine's entry is the one with an address in `addresses`. If `own` is not
// empty, it is the entry that equals `own`, or whose address does. Errors: kInvalid; kTooBig for
// too many entries.
Result<MemberList> parse_member_list(const std::vector<std::string>& entries,
                                     const std::string& own,
                                     std::span<const std::string> addresses);

// Sets this machine's address, port and id, and the other machines, from such a list. Errors: those
// of parse_member_list(); kInvalid without a secret.
Status use_member_list(const std::vector<std::string>& entries, const std::string& own,
                       CacheOptions* options);

// Splits ADDRESS:PORT. Errors: kInvalid unless the address is an IP address and the port a number.
Result<Member> parse_place(const std::string& text);

}  // namespace forebay::cache
