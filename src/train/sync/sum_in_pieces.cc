#include "train/sync/sum_in_pieces.h"

#include <algorithm>
#include <utility>

namespace forebay::train {

using base::Bytes;
using base::MutableBytes;

namespace {

// A piece of this many numbers is summed at once, and sent back while the next piece arrives.
constexpr uint64_t kPieceFloats = 1u << 16;
static_assert(kPieceFloats % kEncodedBlock == 0);

MutableBytes bytes_of(std::span<float> floats) {
  return {reinterpret_cast<uint8_t*>(floats.data()), floats.size_bytes()};
}

size_t rounded_bytes(uint64_t floats) { return encoded_bytes(Encoding::kInt8, floats); }

}  // namespace

std::span<float> SumInPieces::part_of(uint32_t rank) const {
  const uint64_t begin = numbers_.size() * rank / peers_.size();
  return numbers_.subspan(begin, numbers_.size() * (rank + 1) / peers_.size() - begin);
}

void SumInPieces::begin(std::span<float> numbers, std::span<float> left_out) {
  FOREBAY_CHECK(left_out.empty() || left_out.size() == numbers.size());
  numbers_ = numbers;
  left_out_ = left_out;
  summed_ = 0;
  const uint64_t count = part_of(rank_).size();
  if (arrived_.size() < count * peers_.size()) arrived_.resize(count * peers_.size());
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    peer.sent = peer.asked = peer.arrived = 0;
    peer.sends_sums = false;
    if (!is_rounded()) continue;
    peer.encoded.resize(rounded_bytes(part_of(rank).size()));
    if (rank != rank_) round(part_of(rank), peer.encoded.data());
  }
  peers_[rank_].arrived = count;
}

// Rounds a part of the numbers, and writes its bytes and what it leaves out.
void SumInPieces::round(std::span<float> numbers, uint8_t* to) {
  const auto begin = static_cast<size_t>(numbers.data() - numbers_.data());
  const auto left_out = left_out_.subspan(begin, numbers.size());
  std::ranges::copy(numbers, left_out.begin());
  encode(Encoding::kInt8, numbers, to);
  for (size_t i = 0; i < numbers.size(); ++i) left_out[i] -= numbers[i];
}

Bytes SumInPieces::numbers_for(uint32_t peer) const {
  return is_rounded() ? Bytes(peers_[peer].encoded) : Bytes(bytes_of(part_of(peer)));
}

std::optional<Bytes> SumInPieces::sums_for(uint32_t peer) {
  uint64_t& sent = peers_[peer].sent;
  const auto part = part_of(rank_);
  if (sent == summed_ && sent < part.size()) return std::nullopt;
  const uint64_t begin = std::exchange(sent, summed_);
  if (!is_rounded()) return bytes_of(part.subspan(begin, sent - begin));
  const uint64_t first = rounded_bytes(begin);
  return Bytes(peers_[rank_].encoded).subspan(first, rounded_bytes(sent) - first);
}

MutableBytes SumInPieces::room_for(uint32_t peer) {
  Peer& from = peers_[peer];
  const uint64_t count = part_of(rank_).size();
  const auto own = std::span(arrived_).subspan(count * peer, count);
  if (from.arrived < from.asked) {
    const auto piece = own.subspan(from.arrived, from.asked - from.arrived);
    if (is_rounded()) decode(Encoding::kInt8, from.piece, piece);
    from.arrived = from.asked;
    sum_up();
  }
  if (from.asked < count) {
    const auto piece = own.subspan(from.asked, std::min(kPieceFloats, count - from.asked));
    from.asked += piece.size();
    if (!is_rounded()) return bytes_of(piece);
    from.piece.resize(rounded_bytes(piece.size()));
    return from.piece;
  }
  const auto sums = part_of(peer);
  if (!std::exchange(from.sends_sums, true) && !sums.empty()) {
    return is_rounded() ? MutableBytes(from.encoded) : bytes_of(sums);
  }
  if (is_rounded()) decode(Encoding::kInt8, from.encoded, sums);
  return {};
}

// Sums up what has arrived from all peers.
void SumInPieces::sum_up() {
  const auto part = part_of(rank_);
  const uint64_t begin = summed_;
  summed_ = std::ranges::min(peers_, {}, &Peer::arrived).arrived;
  const auto sum = part.subspan(begin, summed_ - begin);
  const auto from = [&](uint32_t rank) { return arrived_.data() + part.size() * rank + begin; };
  std::ranges::copy(sum, from(rank_));
  std::copy_n(from(0), sum.size(), sum.begin());
  for (uint32_t rank = 1; rank < peers_.size(); ++rank) {
    const float* const more = from(rank);
    for (uint64_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  }
  if (is_rounded()) round(sum, peers_[rank_].encoded.data() + rounded_bytes(begin));
}

}  // namespace forebay::train
