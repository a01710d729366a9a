// What one process does in a sum of numbers over all processes, without its connections (sums.h).
// Each process sums up one part of the numbers, piece by piece as they arrive.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "train/sync/encoding.h"

namespace forebay::train {

// One thread at a time calls it.
class SumInPieces {
 public:
  SumInPieces(uint32_t rank, uint32_t processes) : rank_(rank), peers_(processes) {}

  // Begins a sum, which replaces the numbers. If `left_out` is not empty, numbers and sums are sent
  // as Encoding::kInt8, and what this process's rounding leaves out of the sum is written there,
  // for each number. Both must stay in place until the sum is complete.
  void begin(std::span<float> numbers, std::span<float> left_out);

  // What the peer gets first: the numbers of its part.
  base::Bytes numbers_for(uint32_t peer) const;
  // What the peer gets next: the sums of this process's part that it has not got yet. Absent if
  // they are not there yet; empty when it has got all.
  std::optional<base::Bytes> sums_for(uint32_t peer);
  // Takes the bytes that have arrived in the room that the last call returned, and returns room for
  // the peer's next bytes; none when all have arrived.
  base::MutableBytes room_for(uint32_t peer);

 private:
  struct Peer {
    uint64_t sent = 0;     // how many sums it has got
    uint64_t asked = 0;    // for how many numbers of this process's part there was room
    uint64_t arrived = 0;  // how many of them are there
    bool sends_sums = false;
    base::ByteVector piece;    // of its numbers, encoded
    base::ByteVector encoded;  // its part: first the numbers, which its sums replace
  };

  bool is_rounded() const { return !left_out_.empty(); }
  // The part of the numbers that a process sums up.
  std::span<float> part_of(uint32_t rank) const;
  void round(std::span<float> numbers, uint8_t* to);
  void sum_up();

  const uint32_t rank_;
  std::span<float> numbers_;
  std::span<float> left_out_;
  uint64_t summed_ = 0;         // how many numbers of this process's part are summed up
  std::vector<float> arrived_;  // this process's part, of each peer
  std::vector<Peer> peers_;     // by rank; of this process, only the encoded sums are used
};

}  // namespace forebay::train
