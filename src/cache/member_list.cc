#include "cache/member_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/limits.h"
#include "io/ascii.h"
#include "io/datagrams.h"
#include "io/machine.h"
#include "io/share_work.h"

namespace forebay::cache {

using base::Code;
using base::fail;
using io::is_made_of_letters_and;
using io::lower;

namespace {

constexpr size_t kLookUpsAtOnce = 8;

// An entry, and what its name leads to.
struct Entry {
  Member member;          // without a host if the entry has a name
  std::string name = {};  // empty if the entry has an address
  std::vector<io::FoundAddress> found = {};
  bool is_own = false;
};

// Whether a text is a host's name. A text that ends like a number is a malformed address.
bool is_host_name(std::string_view text) {
  if (text.empty() || text.size() > base::kHostBytesMax || !is_made_of_letters_and("-._", text) ||
      text.find("..") != std::string_view::npos || text.front() == '.' || text.front() == '-') {
    return false;
  }
  const std::string_view last = text.substr(text.rfind('.') + 1);
  return !last.empty() && last.find_first_not_of("0123456789") != std::string_view::npos;
}

Result<Entry> parse_entry(const std::string& text) {
  const size_t colon = std::min(text.rfind(':'), text.size());
  const std::string name = lower(text.substr(0, colon));
  const bool is_name = is_host_name(name);
  // For the port of a named entry, any address will do.
  auto place = parse_place(is_name ? "127.0.0.1" + text.substr(colon) : text);
  if (!place) {
    return fail(Code::kInvalid,
                "{} is not HOST:PORT with a host's name or an IP address, such as node-1:7400, "
                "10.0.0.1:7400 or [fd00::1]:7400",
                text);
  }
  if (!is_name) return Entry{.member = std::move(*place)};
  return Entry{.member = {.id = place_of(name, place->port), .port = place->port}, .name = name};
}

bool is_among(const std::vector<std::string>& addresses, const std::string& address) {
  return std::ranges::find(addresses, address) != addresses.end();
}

bool is_own(const Entry& entry, const MemberListOptions& options) {
  if (!options.own.empty()) {
    const std::string own = lower(options.own);
    return own == entry.member.id || own == (entry.name.empty() ? entry.member.host : entry.name);
  }
  if (entry.name.empty()) return is_among(options.addresses, entry.member.host);
  return std::ranges::any_of(entry.found, [&](const io::FoundAddress& found) {
    return found.is_loopback || is_among(options.addresses, found.text);
  });
}

// The addresses of the other machines, as far as they are known.
std::vector<io::FoundAddress> addresses_of_others(const std::vector<Entry>& entries) {
  std::vector<io::FoundAddress> others;
  for (const Entry& entry : entries) {
    if (entry.is_own) continue;
    others.insert(others.end(), entry.found.begin(), entry.found.end());
    if (entry.name.empty()) others.push_back(io::address_of(entry.member.host));
  }
  return others;
}

// The address at which the other machines reach this one, whose entry has a name. On this machine,
// the name may lead to loopback only.
std::string own_address(const Entry& own, const std::vector<Entry>& entries,
                        const MemberListOptions& options) {
  for (const io::FoundAddress& found : own.found) {
    if (!found.is_loopback && is_among(options.addresses, found.text)) return found.text;
  }
  const std::vector<io::FoundAddress> others = addresses_of_others(entries);
  for (const io::FoundAddress& other : others) {
    const std::string source = other.is_loopback ? std::string() : options.source_to(other.text);
    if (!source.empty()) return source;
  }
  if (others.empty()) {
    for (const std::string& address : options.addresses) {
      if (!io::address_of(address).is_loopback && !address.starts_with("fe80")) return address;
    }
  }
  return own.found.empty() ? "127.0.0.1" : own.found.front().text;
}

Result<std::vector<Entry>> parse_entries(const std::vector<std::string>& texts,
                                         const MemberListOptions& options) {
  if (texts.size() > base::kMembersMax) {
    return fail(Code::kTooBig, "the list has {} machines, more than {}", texts.size(),
                base::kMembersMax);
  }
  std::vector<Entry> entries;
  std::set<std::string> ids;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Entry entry, parse_entry(text));
    if (entry.member.port == 0) return fail(Code::kInvalid, "{}: the port must be known", text);
    if (!ids.insert(entry.member.id).second) {
      return fail(Code::kInvalid, "{} is in the list of machines twice", text);
    }
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(io::share_work(entries.size(), 1, kLookUpsAtOnce,
                                 [&](uint64_t number, uint64_t, size_t) -> Status {
                                   Entry& entry = entries[number];
                                   if (!entry.name.empty()) entry.found = options.find(entry.name);
                                   entry.is_own = is_own(entry, options);
                                   return {};
                                 }));
  return entries;
}

// Why the machine's own entry is not plain.
tl::unexpected<Status> fail_own(size_t owns, const std::vector<Entry>& entries,
                                const MemberListOptions& options) {
  std::vector<std::string> unknown;
  for (const Entry& entry : entries) {
    if (!entry.name.empty() && entry.found.empty()) unknown.push_back(entry.name);
  }
  return fail(
      Code::kInvalid,
      "{} of the {} machines of the list {} this one ({}){}; set `address` to this machine's "
      "entry",
      owns == 0 ? "none" : fmt::format("{}", owns), entries.size(), owns > 1 ? "may be" : "is",
      options.own.empty() ? fmt::format("which has {}", fmt::join(options.addresses, ", "))
                          : options.own,
      unknown.empty() ? ""
                      : fmt::format(", and no address is found for {}", fmt::join(unknown, ", ")));
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

Result<MemberList> parse_member_list(const std::vector<std::string>& texts,
                                     const MemberListOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Entry> entries, parse_entries(texts, options));
  const auto owns = std::ranges::count_if(entries, &Entry::is_own);
  if (owns != 1) return fail_own(static_cast<size_t>(owns), entries, options);
  MemberList list;
  for (const Entry& entry : entries) {
    if (!entry.is_own) {
      list.others.push_back({.member = entry.member, .name = entry.name});
      continue;
    }
    list.own = entry.member;
    if (!entry.name.empty()) list.own.host = own_address(entry, entries, options);
  }
  return list;
}

Status use_member_list(const std::vector<std::string>& entries, const std::string& own,
                       CacheOptions* options) {
  const MemberListOptions surroundings{
      .own = own,
      .addresses = io::own_addresses(),
      .find =
          [](const std::string& name) {
            return io::find_addresses(name).value_or(std::vector<io::FoundAddress>());
          },
      .source_to = io::source_address_to};
  ASSIGN_OR_RETURN(MemberList list, parse_member_list(entries, surroundings));
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
