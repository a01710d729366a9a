// The state of the lanes of entropy_avx512.cc and the plain operations on it: gathers, selections,
// the refill, and finding the next lookup. Included by that file only, since it is compiled for
// AVX-512.
#pragma once

#include <immintrin.h>

#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {
namespace {

constexpr int kLanes = 16;  // of a group
constexpr int kGroups = 2;
constexpr int kBlockShift = 6;  // 64 positions
constexpr int kLengthMask = 63;
// Set when a position crossed from one block to the next; blocks follow each other in memory.
constexpr int kNextBlock = 1 << kBlockShift;

// Where a value takes 64 bits, the first of two registers holds the even lanes of a group, and the
// second the odd lanes. So the lower and upper halves of all lanes combine without moving across
// lanes.
constexpr __mmask16 kEvenLanes = 0x5555;
constexpr __mmask16 kOddLanes = 0xAAAA;
constexpr int half_of(int lane) { return lane & 1; }
constexpr __mmask8 place_of(int lane) { return static_cast<__mmask8>(1u << (lane >> 1)); }

struct Constants {
  __m512i kind_after, slot_of, first_slot, reverse;
  __m512i dc_shift;  // a byte for each block
};

// The state of a group between lookups, in registers. `last` is the place of the last coefficient
// that was passed, in the coefficients of all lanes. A slice begins at a multiple of 64, so the
// lower bits of `last` are the position in a block.
struct Group {
  __m512i buffer[2];  // 64 bits a lane; the next bit is the highest one
  __m512i slot;       // where the next lookup begins, in the arena
  __m512i last;
  __m512i end;       // what `last` will be
  __m512i bit;       // the position, not counting `consumed`
  __m512i consumed;  // the bits consumed since the refill, in its lowest six bits
  __m512i bits;
  __m512i kind;      // the kind of the table for the next symbol
  __m512i crossed;   // kNextBlock is set when a run left its block
  __m512i pairs;     // rotated so that shifting by the number of a block brings its pair to bit 2
  __m512i data[2];   // addresses
  __m512i slots[2];  // 8 bytes a lane; for kMixed
  // For kWalk, sums of DC differences of 16 bits each: dc[0] has the first two components, dc[1]
  // the third.
  __m512i dc[2];
};

// Copies register by register: the code that compilers generate for an assignment takes several
// times as long.
[[gnu::always_inline]] inline void copy(const Group& from, Group* to) {
  for (int i = 0; i < 2; ++i) {
    to->buffer[i] = from.buffer[i];
    to->data[i] = from.data[i];
    to->slots[i] = from.slots[i];
    to->dc[i] = from.dc[i];
  }
  to->slot = from.slot;
  to->last = from.last;
  to->end = from.end;
  to->bit = from.bit;
  to->consumed = from.consumed;
  to->bits = from.bits;
  to->kind = from.kind;
  to->crossed = from.crossed;
  to->pairs = from.pairs;
}

// The lowest two bits of Group::kind.
constexpr uint8_t kDc = StreamTables::kDc;
constexpr uint8_t kChained = StreamTables::kAcChained;
constexpr uint8_t kSingle = StreamTables::kAcSingle;
// Added to the kind of a DC coefficient, which lies in the block after `last`.
constexpr uint8_t kCrosses = kNextBlock;

// Which tables the lanes use, and what the lanes are decoded for.
enum Mode : uint8_t {
  kMixed,   // any tables
  kCommon,  // all lanes use the same tables
  kWalk,    // like kCommon, but only the sums of DC differences are kept, no coefficients
};

// The part of the lanes' state that stays in memory.
struct Lanes {
  Stream* stream[kLanes];
  __mmask16 active;
};

// Where streams come from, and the buffer that coefficients go to.
struct Ends {
  int16_t* coefficients;
  StreamSource* source;
};

[[gnu::always_inline]] inline __m512i and_with(__m512i a, int b) {
  return _mm512_and_si512(a, _mm512_set1_epi32(b));
}

// A plain gather gets an arbitrary register as its old value, and would wait for the last write to
// that register. So gathers go into zeros, with a full mask that the compiler cannot recognise.
[[gnu::always_inline]] inline __mmask8 all_lanes() {
  __mmask8 all = 0xFF;
  asm("" : "+k"(all));
  return all;
}

[[gnu::always_inline]] inline __m512i gather_entries(const Entry* base, __m512i index) {
  return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), all_lanes(), index, base,
                                     sizeof(Entry));
}

[[gnu::always_inline]] inline __m512i gather_bytes(__m512i at) {
  return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), all_lanes(), at, nullptr, 1);
}

// The 32-bit numbers of the even lanes, or of the odd lanes, widened to 64 bits.
[[gnu::always_inline]] inline __m512i even_lanes(__m512i v) {
  return _mm512_maskz_mov_epi32(kEvenLanes, v);
}
[[gnu::always_inline]] inline __m512i odd_lanes(__m512i v) { return _mm512_srli_epi64(v, 32); }

// The upper, or lower, 32 bits of all lanes' 64-bit numbers.
[[gnu::always_inline]] inline __m512i upper(__m512i even, __m512i odd) {
  return _mm512_mask_shuffle_epi32(odd, kEvenLanes, even, _MM_PERM_DDBB);
}
[[gnu::always_inline]] inline __m512i lower(__m512i even, __m512i odd) {
  return _mm512_mask_shuffle_epi32(even, kOddLanes, odd, _MM_PERM_CCAA);
}

[[gnu::always_inline]] inline void count_consumed(Group& g) {
  g.bit = _mm512_add_epi32(g.bit, and_with(g.consumed, kLengthMask));
  g.consumed = _mm512_setzero_si512();
}

[[gnu::always_inline]] inline void refill(const Constants& c, Group& g) {
  const __m512i byte = _mm512_srli_epi32(_mm512_min_epu32(g.bit, g.bits), 3);
  const __m512i shift = and_with(g.bit, 7);
  const __m512i even = gather_bytes(_mm512_add_epi64(g.data[0], even_lanes(byte)));
  const __m512i odd = gather_bytes(_mm512_add_epi64(g.data[1], odd_lanes(byte)));
  g.buffer[0] = _mm512_sllv_epi64(_mm512_shuffle_epi8(even, c.reverse), even_lanes(shift));
  g.buffer[1] = _mm512_sllv_epi64(_mm512_shuffle_epi8(odd, c.reverse), odd_lanes(shift));
}

// The kinds of the next symbols and where their lookups begin; lanes whose slice has ended get the
// idle lookup.
struct Next {
  __m512i kind;
  __m512i slot;
};

template <Mode kMode>
[[gnu::always_inline]] inline Next next_of(const Constants& c, const Group& g) {
  const __m512i kind = _mm512_permutexvar_epi8(g.last, c.kind_after);
  const __mmask16 inside = _mm512_cmplt_epi32_mask(g.last, g.end);
  if constexpr (kMode != kMixed) {
    // Bit 2 is the pair of this block, bit 3 the pair of the next block.
    const __m512i pair = _mm512_rorv_epi32(g.pairs, _mm512_srli_epi32(g.last, kBlockShift));
    const __m512i index = _mm512_ternarylogic_epi32(_mm512_set1_epi32(3), kind, pair, 0xCA);
    return {kind, _mm512_maskz_permutexvar_epi32(inside, index, c.slot_of)};
  } else {
    const __m512i place = _mm512_add_epi32(g.last, _mm512_set1_epi32(1));
    const __m512i pair = _mm512_rorv_epi32(g.pairs, _mm512_srli_epi32(place, kBlockShift));
    const __m512i index =
        _mm512_or_si512(_mm512_or_si512(and_with(kind, 3), and_with(pair, 4)), c.first_slot);
    const __m512i slot = _mm512_permutex2var_epi8(g.slots[0], index, g.slots[1]);
    return {kind,
            _mm512_slli_epi32(_mm512_maskz_mov_epi32(inside, and_with(slot, 255)), kLookupBits)};
  }
}

}  // namespace
}  // namespace forebay::jpeg
