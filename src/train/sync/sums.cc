#include "train/sync/sums.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace forebay::train {

using base::Code;
using base::fail;
using base::MutableBytes;
using base::MutexLock;
using Receiving = io::Mesh::Receiving;
using Sending = io::Mesh::Sending;

namespace {

// The memory for gathered bytes grows in such pieces, with the bytes that arrive, because the
// number that a peer announces may be wrong.
constexpr uint64_t kPieceBytes = 64u << 20;

template <class T>
MutableBytes bytes_of(T* value) {
  return {reinterpret_cast<uint8_t*>(value), sizeof(T)};
}

template <class T>
Bytes bytes_of(const T* value) {
  return {reinterpret_cast<const uint8_t*>(value), sizeof(T)};
}

}  // namespace

Sums::Sums(io::Mesh& mesh, io::Mesh::Channel channel, io::Mesh::Look look)
    : mesh_(mesh),
      channel_(channel),
      look_(std::move(look)),
      sum_(mesh.rank(), mesh.processes()),
      peers_(mesh.processes()) {
  static_assert(sizeof(Header) == 24);
}

Sums::Header Sums::own_header(Kind kind, uint64_t bytes) const {
  return {.kind = kind, .sender = mesh_.rank(), .number = number_, .bytes = bytes};
}

std::vector<uint32_t> Sums::missing() const {
  const MutexLock lock(mutex_);
  std::vector<uint32_t> out;
  if (!is_busy_ && !is_ending_) return out;
  const bool all_began = std::ranges::all_of(peers_, [this](const Peer& peer) {
    return peer.has_begun || &peer == &peers_[mesh_.rank()];
  });
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    const Peer& one = peers_[peer];
    bool is_there = one.has_ended;
    if (is_busy_) is_there = all_began ? one.has_summed : one.has_begun;
    if (peer != mesh_.rank() && !is_there) out.push_back(peer);
  }
  return out;
}

void Sums::begin() {
  const MutexLock lock(mutex_);
  is_busy_ = true;
}

void Sums::finish() {
  const MutexLock lock(mutex_);
  ++number_;
  is_busy_ = false;
  for (Peer& peer : peers_) peer.has_begun = peer.has_summed = false;
}

Result<bool> Sums::took_header(uint32_t peer) {
  const MutexLock lock(mutex_);
  Peer& from = peers_[peer];
  const Header& header = from.header;
  if (header.sender != peer || header.number != number_) {
    return fail(Code::kInvalid,
                "rank {} began operation {} of the job, but this process, rank {}, is at operation "
                "{}; all processes must make the same calls in the same order",
                peer, header.number, mesh_.rank(), number_);
  }
  if (header.kind == Kind::kEnd) {
    if (std::exchange(from.has_ended, true)) {
      return fail(Code::kInvalid, "rank {} told rank {} twice that it has ended", peer,
                  mesh_.rank());
    }
    return false;
  }
  from.has_begun = true;
  return true;
}

MutableBytes Sums::header_room(uint32_t peer) { return bytes_of(&peers_[peer].header); }

Receiving Sums::receiving(uint32_t peer, Kind kind, std::function<Result<MutableBytes>()> rest) {
  // A header may have arrived in wait_for_more().
  enum class Stage { kHeader, kKind, kRest };
  const auto next = [this, peer, kind, rest = std::move(rest),
                     stage = peers_[peer].has_begun ? Stage::kKind : Stage::kHeader,
                     is_first = true]() mutable -> Result<MutableBytes> {
    if (stage == Stage::kHeader) {
      if (is_first) {
        is_first = false;
        return header_room(peer);
      }
      ASSIGN_OR_RETURN(const bool begins, took_header(peer));
      if (!begins) return header_room(peer);  // the peer has ended, and takes part from now on
      stage = Stage::kKind;
    }
    if (std::exchange(stage, Stage::kRest) == Stage::kKind && peers_[peer].header.kind != kind) {
      return fail(Code::kInvalid,
                  "rank {} made another operation than this process, rank {}; all processes must "
                  "make the same calls in the same order",
                  peer, mesh_.rank());
    }
    return rest();
  };
  return {.peer = peer, .rest = {}, .more = next};
}

Status Sums::add(std::span<float> numbers, int64_t deadline_ns, std::span<float> left_out) {
  const uint32_t processes = mesh_.processes();
  if (processes == 1) return {};
  begin();
  sum_.begin(numbers, left_out);
  const Kind kind = left_out.empty() ? Kind::kSum : Kind::kRoundedSum;
  const Header header = own_header(kind, numbers.size_bytes());
  std::vector<Sending> sendings;
  std::vector<Receiving> receivings;
  for (uint32_t peer = 0; peer < processes; ++peer) {
    if (peer == mesh_.rank()) continue;
    sendings.push_back({.peer = peer,
                        .rest = bytes_of(&header),
                        .then = sum_.numbers_for(peer),
                        .more = [this, peer] { return sum_.sums_for(peer); }});
    const auto rest = [this, peer, bytes = header.bytes]() -> Result<MutableBytes> {
      if (peers_[peer].header.bytes != bytes) {
        return fail(Code::kInvalid, "rank {} sums {} numbers, but this process, rank {}, {}", peer,
                    peers_[peer].header.bytes / sizeof(float), mesh_.rank(), bytes / sizeof(float));
      }
      const MutableBytes room = sum_.room_for(peer);
      if (room.empty()) {
        const MutexLock lock(mutex_);
        peers_[peer].has_summed = true;
      }
      return room;
    };
    receivings.push_back(receiving(peer, kind, rest));
  }
  const Status status =
      mesh_.transfer(channel_, std::move(sendings), std::move(receivings), deadline_ns, look_);
  // The peers that are there lack a part of the sums, too, but it is others that hold them up.
  if (const auto late = missing(); status.code() == Code::kTimedOut && !late.empty()) {
    return fail(Code::kTimedOut, "rank {} did not answer in time", fmt::join(late, ", rank "));
  }
  RETURN_IF_ERROR(status);
  finish();
  return {};
}

Result<std::vector<base::ByteVector>> Sums::gather(Bytes own, int64_t deadline_ns) {
  const uint32_t processes = mesh_.processes();
  begin();
  std::vector<base::ByteVector> out(processes);
  out[mesh_.rank()].assign(own.begin(), own.end());
  const Header header = own_header(Kind::kBytes, own.size());
  std::vector<Sending> sending;
  std::vector<Receiving> receivings;
  for (uint32_t peer = 0; peer < processes; ++peer) {
    if (peer == mesh_.rank()) continue;
    sending.push_back({.peer = peer, .rest = bytes_of(&header), .then = own});
    receivings.push_back(
        receiving(peer, Kind::kBytes, [this, peer, &out]() -> Result<MutableBytes> {
          const uint64_t bytes = peers_[peer].header.bytes;
          if (bytes > base::kGatheredBytesMax) {
            return fail(Code::kTooBig, "rank {} sends {} bytes, but the most are {}", peer, bytes,
                        base::kGatheredBytesMax);
          }
          const uint64_t arrived = out[peer].size();
          out[peer].resize(arrived + std::min(bytes - arrived, kPieceBytes));
          return MutableBytes(out[peer]).subspan(arrived);
        }));
  }
  RETURN_IF_ERROR(
      mesh_.transfer(channel_, std::move(sending), std::move(receivings), deadline_ns, look_));
  finish();
  return out;
}

Status Sums::say_end() {
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
  }
  const Header header = own_header(Kind::kEnd, 0);
  std::vector<Sending> sending;
  for (uint32_t peer = 0; peer < mesh_.processes(); ++peer) {
    if (peer != mesh_.rank()) sending.push_back({.peer = peer, .rest = bytes_of(&header)});
  }
  return mesh_.transfer(channel_, std::move(sending), {});
}

Result<bool> Sums::wait_for_more() {
  while (true) {
    std::vector<uint32_t> open;
    for (uint32_t peer = 0; peer < mesh_.processes(); ++peer) {
      if (peer != mesh_.rank() && !peers_[peer].has_ended) open.push_back(peer);
    }
    if (open.empty()) return false;
    ASSIGN_OR_RETURN(const uint32_t peer, mesh_.wait_for_any(channel_, open, INT64_MAX));
    RETURN_IF_ERROR(mesh_.transfer(channel_, {}, {{.peer = peer, .rest = header_room(peer)}}));
    ASSIGN_OR_RETURN(const bool begins, took_header(peer));
    if (begins) return true;
  }
}

}  // namespace forebay::train
