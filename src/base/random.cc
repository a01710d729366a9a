#include "base/random.h"

#include "base/limits.h"
#include "base/status.h"

namespace forebay::base {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

namespace {

// The 64-bit seed and the purpose become the key by one block of the generator itself, so that
// neighbouring seeds and purposes give unrelated keys.
std::array<uint32_t, 2> make_key(uint64_t seed, Purpose purpose) {
  const auto block = philox({static_cast<uint32_t>(purpose), 0, 0, 0},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return {block[0], block[1]};
}

}  // namespace

// Words of the counter: word 0 and the low half of word 1 count blocks; the other bits name the
// stream.
Random::Random(uint64_t seed, Purpose purpose, uint64_t a, uint64_t b)
    : counter_{0, static_cast<uint32_t>(b >> 32) << 16, static_cast<uint32_t>(b),
               static_cast<uint32_t>(a)},
      key_(make_key(seed, purpose)) {
  FOREBAY_CHECK(a <= kEpochMax && b <= kDrawnForMax);
}

uint32_t Random::next_u32() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Random::next_u64() {
  const uint64_t low = next_u32();
  return low | uint64_t{next_u32()} << 32;
}

uint64_t Random::below(uint64_t bound) {
  __extension__ using u128 = unsigned __int128;
  u128 product = u128{next_u64()} * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = -bound % bound;
    while (static_cast<uint64_t>(product) < threshold) product = u128{next_u64()} * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Random::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

}  // namespace forebay::base
