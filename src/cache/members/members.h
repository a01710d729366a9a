// The machines that hold a job's cache together, and which of them owns which piece of a file.
// Every machine computes the same owners from the same members, in integers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"

namespace forebay::cache {

// A machine's part of the cache: the process that serves it, and its room.
struct Member {
  std::string id = {};  // of the machine and its folder; the same after a restart
  std::string host = {};
  uint16_t port = 0;
  uint64_t room_bytes = 0;  // 0: it holds nothing
  // Grows with each new process that serves this part, and each time that process refutes that it
  // is dead or suspected.
  uint64_t incarnation = 0;
  bool operator==(const Member&) const = default;
};

// "HOST:PORT" as in a URL, with brackets around an IPv6 address.
std::string place_of(const std::string& host, uint16_t port);

// Files are owned in pieces of this size, so that a few large chunks are spread evenly too.
inline constexpr uint64_t kPieceBytes = 16ull << 20;

// The index of the member that owns the piece of a file: by weighted rendezvous hashing, each has a
// share in proportion to its room, and a member that comes or goes moves only its own share
// (Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005). SIZE_MAX if no
// member has room.
size_t owner_of(const base::Sha256& file, uint64_t piece, std::span<const Member> members);

// The owner, then the member that would own the piece without it, and so on: at most `count`
// members with room.
std::vector<size_t> owners_of(const base::Sha256& file, uint64_t piece,
                              std::span<const Member> members, size_t count);

}  // namespace forebay::cache
