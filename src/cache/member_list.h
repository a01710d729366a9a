// The machines of a cache as a list that a user gives, because no launcher does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "io/find_address.h"

namespace forebay::cache {

struct MemberList {
  Member own;                  // this machine's entry
  std::vector<Listed> others;  // the other machines, running or not
};

// What a list is read with; tests have their own.
struct MemberListOptions {
  std::string own = {};                     // this machine's entry, or its host; empty: unknown
  std::vector<std::string> addresses = {};  // of this machine
  // The addresses of a host's name; empty if it cannot be resolved. Several threads call it.
  std::function<std::vector<io::FoundAddress>(const std::string& name)> find = {};
  // The address from which this machine sends to another address; empty if it cannot.
  std::function<std::string(const std::string& address)> source_to = {};
};

// `entries` are HOST:PORT of each machine, where the host is an IP address (IPv6 in brackets) or a
// name; all machines have the same list. A member's id is the text of its entry, so that all
// machines use the same ids whatever a name means to them. This machine's entry is the one with one
// of its addresses, or with a name that leads to one of them or to loopback. If it has a name, its
// address is one that others can reach: many machines have 127.0.1.1 for their own name. Errors:
// kInvalid; kTooBig for too many entries.
Result<MemberList> parse_member_list(const std::vector<std::string>& entries,
                                     const MemberListOptions& options);

// Sets this machine's address, port and id, and the other machines, from such a list. Waits for the
// system's resolver if there are names. `own`: like MemberListOptions::own. Errors: those of
// parse_member_list(); kInvalid without a secret.
Status use_member_list(const std::vector<std::string>& entries, const std::string& own,
                       CacheOptions* options);

// Splits ADDRESS:PORT. Errors: kInvalid unless the address is an IP address and the port a number.
Result<Member> parse_place(const std::string& text);

}  // namespace forebay::cache
