// Seeded random numbers that are the same with any compiler, machine, thread and device. The
// generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). It is counter-based: the n-th number of a stream does not depend on the numbers before it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace forebay::base {

// Returns one block of Philox4x32-10: 128 random bits from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The purpose of a stream. Streams of different purposes never overlap.
enum class Purpose : uint32_t {
  kPackOrder = 1,
  kChunkOrder = 2,
  kGroupOrder = 3,
  kAugment = 4,
  kMix = 5,
  kDraw = 6,
  kRetry = 7,
  kMembership = 8,
  kPairs = 9,
  kTest = 100,
  kSimulation = 101,
};

// The stream of random numbers that belongs to (seed, purpose, a, b). `a` and `b` name what is
// drawn, for example an epoch and a sample. `a` must be below 2^32, `b` below 2^48.
class Random {
 public:
  Random(uint64_t seed, Purpose purpose, uint64_t a = 0, uint64_t b = 0);
  uint32_t next_u32();
  uint64_t next_u64();
  // Returns a number that is uniform in [0, bound), without bias; bound > 0 (Lemire, "Fast random
  // integer generation in an interval", 2019).
  uint64_t below(uint64_t bound);
  // Returns a number that is uniform in [0, 1), a multiple of 2^-53.
  double uniform();

  // The arguments of philox() for one block of the stream.
  struct BlockInput {
    std::array<uint32_t, 4> counter;  // the first word counts the blocks
    std::array<uint32_t, 2> key;
  };
  // The arguments for the next block; no number of that block has been drawn yet.
  BlockInput next_block() const { return {counter_, key_}; }

 private:
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> block_{};
  uint32_t used_ = 4;
};

// Shuffles in place by the Fisher–Yates algorithm.
template <class T>
void shuffle(std::span<T> items, Random& random) {
  for (size_t left = items.size(); left > 1; --left) {
    std::swap(items[left - 1], items[random.below(left)]);
  }
}

}  // namespace forebay::base
