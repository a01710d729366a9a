// The state of the lanes of entropy_avx2.cc and the plain operations on it: loads, selections, the
// refill, and finding the next lookup. Included by that file only.
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>

#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {
namespace {

constexpr int kLanes = 8;       // of a group
constexpr int kBlockShift = 6;  // 64 positions
constexpr int kPositionMask = 63;
constexpr int kLengthMask = 63;
// Shifts that bring a flag of an entry to the sign bit of a lane.
constexpr int kEndOfBlockToSign = 16;
constexpr int kValueNextToSign = 17;
static_assert(kEndOfBlock << (14 + kEndOfBlockToSign) == 1u << 31);
static_assert(kValueNext << (14 + kValueNextToSign) == 1u << 31);

// The state of a group between lookups. Where a value takes 64 bits, the first of two registers
// holds lanes 0, 2, 4 and 6, and the second the odd lanes. So the lower and upper halves of all
// lanes combine without moving across lanes.
struct Group {
  __m256i buffer[2];  // 64 bits a lane; the next bit is the highest one
  __m256i slot;       // where the next lookup begins, in the arena
  __m256i last;       // the last position in the slice that was passed
  __m256i end;        // what `last` will be
  __m256i bit;        // the position, not counting `consumed`
  __m256i consumed;   // the bits consumed since the refill, in its lowest six bits
  __m256i bits;
  __m256i is_dc;    // all ones where the next symbol is a DC coefficient's
  __m256i crossed;  // bit 6 is set when a run left its block
  __m256i pairs;    // shifting by a block's number brings its pair to bit 2
  __m256i base;     // where the slice begins in the coefficients of all lanes
  // For kWalk, sums of DC differences of 16 bits each: dc[0] has the first two components, dc[1]
  // the third.
  __m256i dc[2];
  __m256i slots[2];  // 8 bytes a lane, in Constants' order; for kMixed
};

// Which tables the lanes use, and what the lanes are decoded for.
enum Mode : uint8_t {
  kMixed,   // any tables
  kCommon,  // all lanes use the same tables
  kWalk,    // like kCommon, but only the sums of DC differences are kept, no coefficients
};

// The part of the lanes' state that stays in memory.
struct Lanes {
  std::array<const uint8_t*, kLanes> data;
  std::array<Stream*, kLanes> stream;
  uint32_t active;
};

struct Constants {
  __m256i slot_of;  // slots by slot_index()
  __m256i reverse;
  __m256i dc_shift[2];  // a byte for each block: the first 16 blocks, then the others
};

// Where streams come from, and the buffer that coefficients go to.
struct Ends {
  int16_t* coefficients;
  StreamSource* source;
};

// The position of a table in Constants::slot_of. next_of() counts the kinds of a pair like this,
// modulo 8; the DC table comes last.
constexpr size_t slot_index(size_t pair, size_t kind) { return (pair * 4 + kind + 7) % 8; }
static_assert(StreamTables::kDc == 0 && StreamTables::kAcChained == 1 &&
              StreamTables::kAcSingle == 2);

template <typename T>
__m256i load(const std::array<T, 32 / sizeof(T)>& from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from.data()));
}

// A register that is stored in memory, for access lane by lane.
template <typename T>
struct Spilled {
  [[gnu::always_inline]] explicit Spilled(__m256i from) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes.data()), from);
    // Forces the store: extracting lanes from registers by shuffles is slower.
    asm("" : "+m"(lanes));
  }
  const T& operator[](size_t lane) const { return lanes[lane]; }
  T& operator[](size_t lane) { return lanes[lane]; }

  alignas(32) std::array<T, 32 / sizeof(T)> lanes;
};

__m256i and_with(__m256i a, int b) { return _mm256_and_si256(a, _mm256_set1_epi32(b)); }

// `yes` in lanes where `sign` is negative, else `no`.
__m256i select(__m256i no, __m256i yes, __m256i sign) {
  return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(no), _mm256_castsi256_ps(yes),
                                              _mm256_castsi256_ps(sign)));
}
uint32_t signs(__m256i v) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(v)));
}

constexpr int kOddLanes = 0xAA;
// The 32-bit numbers of the even lanes, or of the odd lanes, widened to 64 bits.
__m256i even_lanes(__m256i v) { return _mm256_blend_epi32(v, _mm256_setzero_si256(), kOddLanes); }
__m256i odd_lanes(__m256i v) { return _mm256_srli_epi64(v, 32); }
// The upper, or lower, 32 bits of all lanes' 64-bit numbers.
__m256i upper(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, kOddLanes);
}
__m256i lower(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), kOddLanes);
}

// 64 bits for each lane.
struct Wide {
  __m256i even;
  __m256i odd;
};

__m128i load_two(const void* first, const void* second) {
  const __m128i low = _mm_loadl_epi64(static_cast<const __m128i*>(first));
  return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), static_cast<const __m64*>(second)));
}

// Eight bytes from `at(lane)` for each lane.
template <typename At>
[[gnu::always_inline]] inline Wide load_lanes(const At& at) {
  return {_mm256_set_m128i(load_two(at(4), at(6)), load_two(at(0), at(2))),
          _mm256_set_m128i(load_two(at(5), at(7)), load_two(at(1), at(3)))};
}

void count_consumed(Group& g) {
  g.bit = _mm256_add_epi32(g.bit, and_with(g.consumed, kLengthMask));
  g.consumed = _mm256_setzero_si256();
}

[[gnu::always_inline]] inline void refill(const Constants& c, const Lanes& lanes, Group& g) {
  const Spilled<uint32_t> byte(_mm256_srli_epi32(_mm256_min_epu32(g.bit, g.bits), 3));
  const Wide bytes = load_lanes([&](size_t lane) { return lanes.data[lane] + byte[lane]; });
  const __m256i shift = and_with(g.bit, 7);
  g.buffer[0] = _mm256_sllv_epi64(_mm256_shuffle_epi8(bytes.even, c.reverse), even_lanes(shift));
  g.buffer[1] = _mm256_sllv_epi64(_mm256_shuffle_epi8(bytes.odd, c.reverse), odd_lanes(shift));
}

// The kind of the next symbol and where its lookup begins; lanes whose slice has ended get the idle
// lookup.
struct Next {
  __m256i is_dc;
  __m256i slot;
};

template <Mode kMode>
[[gnu::always_inline]] inline Next next_of(const Constants& c, const Group& g) {
  const __m256i place = _mm256_add_epi32(g.last, _mm256_set1_epi32(1));
  const __m256i k = and_with(place, kPositionMask);
  const __m256i is_dc = _mm256_cmpeq_epi32(k, _mm256_setzero_si256());
  const __m256i is_single = _mm256_cmpgt_epi32(k, _mm256_set1_epi32(kSingleFrom - 1));
  const __m256i block = _mm256_srli_epi32(place, kBlockShift);
  const __m256i pair = and_with(_mm256_srlv_epi32(g.pairs, block), 4);
  const __m256i index = _mm256_add_epi32(_mm256_sub_epi32(pair, is_single), is_dc);
  __m256i slot;
  if constexpr (kMode == kMixed) {
    const __m256i shift = and_with(_mm256_slli_epi32(index, 3), 56);
    const __m256i even = _mm256_srlv_epi64(g.slots[0], even_lanes(shift));
    const __m256i odd = _mm256_srlv_epi64(g.slots[1], odd_lanes(shift));
    slot = _mm256_slli_epi32(and_with(lower(even, odd), 255), kLookupBits);
  } else {
    slot = _mm256_permutevar8x32_epi32(c.slot_of, index);
  }
  const __m256i inside = _mm256_cmpgt_epi32(g.end, g.last);
  static_assert(LookupArena::kIdleSlot == 0);
  return {is_dc, _mm256_and_si256(slot, inside)};
}

}  // namespace
}  // namespace forebay::jpeg
