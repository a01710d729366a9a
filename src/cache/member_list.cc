#include "cache/member_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "io/datagrams.h"
#include "io/machine.h"

namespace forebay::cache {

using base::Code;
using base::fail;

namespace {

bool is_named(const Member& member, const std::string& own) {
  return own == member.host || own == member.id;
}

}  // namespace

Result<Member> parse_place(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string address = text.substr(0, colon);
  const bool in_brackets = address.starts_with('[') && address.ends_with(']');
  if (in_brackets) address = address.substr(1, address.size() - 2);
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = colon == std::string::npos ? end : text.data() + colon + 1;
  const auto [rest, error] = std::from_chars(begin, end, port);
  const std::string number = io::address_number(address);
  if (error != std::errc() || rest != end || number.empty() ||
      in_brackets != (number.find(':') != std::string::npos)) {
    return fail(
        Code::kInvalid,
        "{} is not ADDRESS:PORT with an IP address, such as 10.0.0.1:7400 or [fd00::1]:7400", text);
  }
  return Member{.id = place_of(number, port), .host = number, .port = port};
}

Result<MemberList> parse_member_list(const std::vector<std::string>& entries,
                                     const std::string& own,
                                     std::span<const std::string> addresses) {
  if (entries.size() > base::kMembersMax) {
    return fail(Code::kTooBig, "the list has {} machines, more than {}", entries.size(),
                base::kMembersMax);
  }
  MemberList list;
  std::vector<Member> owns;
  for (const std::string& entry : entries) {
    ASSIGN_OR_RETURN(Member member, parse_place(entry));
    if (member.port == 0) return fail(Code::kInvalid, "{}: the port must be known", entry);
    const auto same = [&](const Member& other) { return other.id == member.id; };
    if (std::ranges::any_of(owns, same) || std::ranges::any_of(list.others, same)) {
      return fail(Code::kInvalid, "{} is in the list of machines twice", entry);
    }
    const bool is_own = own.empty() ? std::ranges::find(addresses, member.host) != addresses.end()
                                    : is_named(member, own);
    (is_own ? owns : list.others).push_back(std::move(member));
  }
  if (owns.size() == 1) {
    list.own = std::move(owns[0]);
    return list;
  }
  return fail(Code::kInvalid,
              "{} of the {} machines of the list {} this one ({}); set `address` to this machine's "
              "entry",
              owns.empty() ? "none" : fmt::format("{}", owns.size()), entries.size(),
              owns.size() > 1 ? "may be" : "is",
              own.empty() ? fmt::format("which has {}", fmt::join(addresses, ", ")) : own);
}

Status use_member_list(const std::vector<std::string>& entries, const std::string& own,
                       CacheOptions* options) {
  ASSIGN_OR_RETURN(MemberList list, parse_member_list(entries, own, io::own_addresses()));
  if (options->secret.empty()) {
    return fail(
        Code::kInvalid,
        "the machines of a list need a secret, the same on all of them, to authenticate each "
        "other");
  }
  options->address = list.own.host;
  options->port = list.own.port;
  options->id = list.own.id;
  options->listed = std::move(list.others);
  return {};
}

}  // namespace forebay::cache
