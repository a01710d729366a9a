#include "cache/members/members.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>

namespace forebay::cache {

namespace {

constexpr int kFractionBits = 24;

uint64_t first_word(const base::Sha256& hash) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word = word << 8 | hash[static_cast<size_t>(i)];
  return word;
}

// -log2((h + 1) / 2^64) with kFractionBits bits after the point: 0 to 64.
uint64_t minus_log2(uint64_t hash) {
  const uint64_t value = hash == UINT64_MAX ? hash : hash + 1;
  const auto whole = static_cast<uint64_t>(std::bit_width(value)) - 1;
  uint64_t mantissa = value << (63 - whole);  // in [1, 2), with 63 bits after the point
  uint64_t log = whole << kFractionBits;
  for (int bit = kFractionBits - 1; bit >= 0; --bit) {
    const auto square = static_cast<unsigned __int128>(mantissa) * mantissa >> 63;
    const bool is_two = square >> 64 != 0;
    mantissa = static_cast<uint64_t>(is_two ? square >> 1 : square);
    if (is_two) log |= uint64_t{1} << bit;
  }
  return (uint64_t{64} << kFractionBits) - log;
}

struct Rank {
  size_t number = 0;
  uint64_t log = 0;
};

}  // namespace

std::vector<size_t> owners_of(const base::Sha256& file, uint64_t piece,
                              std::span<const Member> members, size_t count) {
  std::vector<Rank> ranks;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].room_bytes == 0) continue;
    base::Sha256Stream stream;
    stream.add(file);
    std::array<uint8_t, 8> number{};
    for (size_t k = 0; k < 8; ++k) number[k] = static_cast<uint8_t>(piece >> (8 * k));
    stream.add(number);
    stream.add(base::as_bytes(members[i].id));
    ranks.push_back({i, minus_log2(first_word(stream.finish()))});
  }
  // The smallest log / room wins; equal ones are ordered by the members' ids.
  const auto is_before = [&](const Rank& a, const Rank& b) {
    const Member& left = members[a.number];
    const Member& right = members[b.number];
    const auto left_log = static_cast<unsigned __int128>(a.log) * right.room_bytes;
    const auto right_log = static_cast<unsigned __int128>(b.log) * left.room_bytes;
    return left_log != right_log ? left_log < right_log : left.id < right.id;
  };
  count = std::min(count, ranks.size());
  std::ranges::partial_sort(ranks, ranks.begin() + static_cast<ptrdiff_t>(count), is_before);
  std::vector<size_t> owners;
  for (size_t i = 0; i < count; ++i) owners.push_back(ranks[i].number);
  return owners;
}

size_t owner_of(const base::Sha256& file, uint64_t piece, std::span<const Member> members) {
  const std::vector<size_t> owners = owners_of(file, piece, members, 1);
  return owners.empty() ? SIZE_MAX : owners.front();
}

std::string place_of(const std::string& host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace forebay::cache
