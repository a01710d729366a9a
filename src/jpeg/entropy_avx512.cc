// Entropy decoding in 32 lanes: two groups of 16, so that one's gathers hide behind the other's
// arithmetic. Needs AVX-512 F, BW, DQ, VL and VBMI; compiled with them, so nothing here may be an
// inline function that another file might be given.
#include <immintrin.h>

#include "jpeg/entropy.h"

namespace forebay::jpeg {
namespace {

constexpr int kLanes = 16;  // of a group
constexpr int kGroups = 2;
constexpr int kLookupsPerRefill = 5;  // of 57 bits
constexpr int kBlockShift = 6;        // 64 positions
constexpr __mmask64 kLowBytes = 0x1111111111111111;

struct Constants {
  __m512i even_words, odd_words, kind_at, first_slot, reverse;
};

// What is in registers between lookups.
struct Group {
  __m512i buffer[2];  // 64 bits a lane, the next on top
  __m512i slot;       // the next lookup
  __m512i position;
  __m512i end;
  __m512i bit;
  __m512i bits;
  __m512i reach;     // the furthest position in a block that was moved to
  __m512i pairs;     // two bits up
  __m512i out;       // one before the slice, from the buffer's beginning
  __m512i slots[2];  // 8 bytes a lane
  __m512i data[2];   // addresses
};

// What is in memory.
struct Lanes {
  Stream* stream[kLanes];
  __mmask16 active;
};

// Where work comes from and coefficients go.
struct Ends {
  int16_t* coefficients;
  StreamSource* source;
};

[[gnu::always_inline]] inline __m512i and_with(__m512i a, int b) {
  return _mm512_and_si512(a, _mm512_set1_epi32(b));
}

// The plain gather is given any register as its old value, whose last writer it would wait for:
// gathers go into zeros, under a mask that the compiler does not see is full.
[[gnu::always_inline]] inline __mmask8 all_lanes() {
  __mmask8 all = 0xFF;
  asm("" : "+k"(all));
  return all;
}

[[gnu::always_inline]] inline __m512i gather_entries(const Entry* base, __m256i index) {
  return _mm512_mask_i32gather_epi64(_mm512_setzero_si512(), all_lanes(), index, base,
                                     sizeof(Entry));
}

[[gnu::always_inline]] inline __m512i gather_bytes(__m512i at) {
  return _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), all_lanes(), at, nullptr, 1);
}

[[gnu::always_inline]] inline void refill(const Constants& c, Group& g) {
  const __m512i byte = _mm512_srli_epi32(_mm512_min_epu32(g.bit, g.bits), 3);
  const __m512i shift = and_with(g.bit, 7);
  for (int half = 0; half < 2; ++half) {
    const __m256i b = half == 0 ? _mm512_castsi512_si256(byte) : _mm512_extracti64x4_epi64(byte, 1);
    const __m256i s =
        half == 0 ? _mm512_castsi512_si256(shift) : _mm512_extracti64x4_epi64(shift, 1);
    const __m512i at = _mm512_add_epi64(g.data[half], _mm512_cvtepu32_epi64(b));
    g.buffer[half] = _mm512_sllv_epi64(_mm512_shuffle_epi8(gather_bytes(at), c.reverse),
                                       _mm512_cvtepu32_epi64(s));
  }
}

// The lookups that the positions ask for; the idle one where a slice has ended.
[[gnu::always_inline]] inline __m512i slots_at(const Constants& c, const Group& g) {
  const __m512i kind =
      _mm512_maskz_permutexvar_epi8(kLowBytes, and_with(g.position, 63), c.kind_at);
  const __m512i pair = _mm512_srlv_epi32(g.pairs, _mm512_srli_epi32(g.position, kBlockShift));
  const __m512i index = _mm512_ternarylogic_epi32(pair, _mm512_set1_epi32(4),
                                                  _mm512_or_si512(kind, c.first_slot), 0xEA);
  const __m512i slot = _mm512_maskz_permutex2var_epi8(kLowBytes, g.slots[0], index, g.slots[1]);
  return _mm512_maskz_mov_epi32(_mm512_cmplt_epu32_mask(g.position, g.end), slot);
}

// What is looked at lane by lane.
struct Spilled {
  explicit Spilled(const Group& g) {
    _mm512_store_si512(position, g.position);
    _mm512_store_si512(bit, g.bit);
    _mm512_store_si512(reach, g.reach);
  }
  alignas(64) uint32_t position[kLanes];
  alignas(64) uint32_t bit[kLanes];
  alignas(64) uint32_t reach[kLanes];
};

// `slow`: of these, `none` met kNoCode, the others kSlowCode.
[[gnu::noinline]] void take_slow(const Constants& c, const Lanes& lanes, __mmask16 slow,
                                 __mmask16 none, Group* g) {
  Spilled spilled(*g);
  for (uint32_t left = slow; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const Stream& stream = *lanes.stream[lane];
    uint64_t at = spilled.bit[lane];
    const bool bad = (none >> lane & 1) != 0;
    const int32_t moved = bad ? -1 : decode_slow(stream, spilled.position[lane], &at);
    spilled.bit[lane] = static_cast<uint32_t>(at);
    if (moved < 0) {
      spilled.reach[lane] = ~0u;
      spilled.position[lane] = stream.blocks << kBlockShift;
    } else {
      spilled.position[lane] = static_cast<uint32_t>(moved);
    }
  }
  g->position = _mm512_load_si512(spilled.position);
  g->bit = _mm512_load_si512(spilled.bit);
  g->reach = _mm512_load_si512(spilled.reach);
  g->slot = _mm512_mask_mov_epi32(g->slot, slow, slots_at(c, *g));
  refill(c, *g);
}

// Lanes that met kLongCode go on in the table's other lookup: position and slot are as they were.
[[gnu::always_inline]] inline void look_further(const Constants& c, __m512i words,
                                                const Lanes& lanes, __mmask16 not_here, Group& g) {
  const __mmask16 long_codes = _mm512_mask_test_epi32_mask(not_here, words, _mm512_set1_epi32(15));
  const __m512i last = _mm512_set1_epi32(LookupArena::kTableSlots - 1);
  g.slot = _mm512_mask_or_epi32(g.slot, long_codes, g.slot, last);
  const auto slow = static_cast<__mmask16>(not_here & ~long_codes);
  if (slow == 0) return;
  static_assert(kNoCode >> 5 & 1);
  const __mmask16 none = _mm512_mask_test_epi32_mask(slow, words, _mm512_set1_epi32(1 << 5));
  Group copy = g;  // so that g itself may stay in registers
  take_slow(c, lanes, slow, none, &copy);
  g = copy;
}

// What 16 lanes looked up, eight in each half.
struct Entries {
  __m512i low;
  __m512i high;
};

[[gnu::always_inline]] inline Entries look_up(const Constants& c, const Entry* arena,
                                              const Group& g) {
  const __m512i top = _mm512_permutex2var_epi32(g.buffer[0], c.odd_words, g.buffer[1]);
  const __m512i index = _mm512_or_si512(_mm512_slli_epi32(g.slot, kLookupBits),
                                        _mm512_srli_epi32(top, 32 - kLookupBits));
  return {gather_entries(arena, _mm512_castsi512_si256(index)),
          gather_entries(arena, _mm512_extracti64x4_epi64(index, 1))};
}

[[gnu::always_inline]] inline void apply(const Constants& c, const Entries& entries,
                                         int16_t* coefficients, const Lanes& lanes, Group& g) {
  constexpr int kFlags = 0xC000;
  const auto [low, high] = entries;
  const __m512i words = _mm512_permutex2var_epi32(low, c.even_words, high);
  const __m512i fifteen = _mm512_set1_epi64(15);
  g.buffer[0] = _mm512_sllv_epi64(g.buffer[0], _mm512_and_si512(low, fifteen));
  g.buffer[1] = _mm512_sllv_epi64(g.buffer[1], _mm512_and_si512(high, fifteen));
  g.bit = _mm512_add_epi32(g.bit, and_with(words, 15));

  alignas(64) uint64_t values[kLanes];
  alignas(64) uint32_t at[kLanes];
  _mm512_store_si512(values, _mm512_srli_epi64(low, 16));
  _mm512_store_si512(values + 8, _mm512_srli_epi64(high, 16));
  _mm512_store_si512(at, _mm512_add_epi32(_mm512_add_epi32(g.position, g.out),
                                          and_with(_mm512_srli_epi32(words, 4), 31)));
  // Through memory: taking the lanes out of the registers by shuffles is slower.
  asm("" : "+m"(values), "+m"(at));
  for (int lane = 0; lane < kLanes; ++lane) {
    __builtin_memcpy(coefficients + at[lane], &values[lane], sizeof values[lane]);
  }

  const __m512i advance = and_with(_mm512_srli_epi32(words, 9), 31);
  g.reach = _mm512_max_epu32(g.reach, _mm512_add_epi32(and_with(g.position, 63), advance));
  const __m512i flags = and_with(words, kFlags);
  const __mmask16 ends = _mm512_cmpeq_epi32_mask(flags, _mm512_set1_epi32(kEndOfBlock << 14));
  g.position = _mm512_add_epi32(g.position, advance);
  g.position =
      _mm512_mask_and_epi32(g.position, ends, _mm512_add_epi32(g.position, _mm512_set1_epi32(63)),
                            _mm512_set1_epi32(~63));
  const __mmask16 value_next = _mm512_cmpeq_epi32_mask(flags, _mm512_set1_epi32(kValueNext << 14));
  const __m512i sizes = _mm512_srli_epi32(_mm512_permutex2var_epi32(low, c.odd_words, high), 28);
  static_assert(LookupArena::kValueSlots == 1 && LookupArena::kIdleSlot == 0);
  g.slot = _mm512_mask_mov_epi32(slots_at(c, g), value_next, sizes);
  const __mmask16 not_here = _mm512_cmpeq_epi32_mask(flags, _mm512_set1_epi32(kFlags));
  if (not_here != 0) [[unlikely]]
    look_further(c, words, lanes, not_here, g);
}

void begin_lane(int lane, Stream* stream, const Ends& ends, Lanes* lanes, Group* g) {
  const auto one = static_cast<__mmask16>(1u << lane);
  const auto one_of_half = static_cast<__mmask8>(1u << (lane & 7));
  const int half = lane >> 3;
  const StreamTables& tables = *stream->tables;
  lanes->stream[lane] = stream;
  lanes->active |= one;
  const auto out = static_cast<int>(stream->out - ends.coefficients) - 1;
  g->out = _mm512_mask_set1_epi32(g->out, one, out);
  g->position = _mm512_mask_set1_epi32(g->position, one, 0);
  g->end = _mm512_mask_set1_epi32(g->end, one, static_cast<int>(stream->blocks << kBlockShift));
  g->bit = _mm512_mask_set1_epi32(g->bit, one, static_cast<int>(stream->bit));
  g->bits = _mm512_mask_set1_epi32(g->bits, one, static_cast<int>(stream->bits));
  g->reach = _mm512_mask_set1_epi32(g->reach, one, 0);
  g->pairs = _mm512_mask_set1_epi32(g->pairs, one, static_cast<int>(tables.pairs << 2));
  long long slots = 0;
  __builtin_memcpy(&slots, &tables.slots, sizeof slots);
  g->slots[half] = _mm512_mask_set1_epi64(g->slots[half], one_of_half, slots);
  g->data[half] =
      _mm512_mask_set1_epi64(g->data[half], one_of_half, reinterpret_cast<long long>(stream->data));
}

// Takes what is finished out of the lanes and gives them new streams.
[[gnu::noinline]] void change_lanes(const Constants& c, __mmask16 finished, const Ends& ends,
                                    Lanes* lanes, Group* g) {
  const Spilled spilled(*g);
  for (uint32_t left = finished; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    Stream& stream = *lanes->stream[lane];
    stream.bit = spilled.bit[lane];
    stream.bad = spilled.reach[lane] > 64 ||
                 spilled.position[lane] != stream.blocks << kBlockShift || stream.bit > stream.bits;
    lanes->active = static_cast<__mmask16>(lanes->active & ~(1u << lane));
    Stream* const next = ends.source->next(&stream);
    if (next != nullptr) begin_lane(lane, next, ends, lanes, g);
  }
  g->slot = _mm512_mask_mov_epi32(g->slot, finished, slots_at(c, *g));
}

Constants make_constants() {
  alignas(64) uint32_t even[16];
  alignas(64) uint32_t odd[16];
  alignas(64) uint32_t first[16];
  alignas(64) uint8_t kinds[64];
  alignas(64) uint8_t reverse[64];
  for (uint32_t i = 0; i < 16; ++i) {
    even[i] = 2 * i;
    odd[i] = 2 * i + 1;
    first[i] = 8 * i;
  }
  for (uint32_t k = 0; k < 64; ++k) {
    kinds[k] = k == 0 ? 0 : k < kSingleFrom ? 1 : 2;
    reverse[k] = static_cast<uint8_t>((k & 8) + 7 - (k & 7));
  }
  return {_mm512_load_si512(even), _mm512_load_si512(odd), _mm512_load_si512(kinds),
          _mm512_load_si512(first), _mm512_load_si512(reverse)};
}

}  // namespace

void decode_slices_avx512(const Entry* arena, int16_t* coefficients, StreamSource& source) {
  static_assert(kLanes * kGroups == streams_at_once(EntropyKernel::kAvx512));
  const Constants constants = make_constants();
  alignas(64) static constexpr uint8_t kNoData[kStreamPadding] = {};
  const __m512i zero = _mm512_setzero_si512();
  const __m512i data = _mm512_set1_epi64(reinterpret_cast<long long>(kNoData));
  // Idle lanes write four zeros to the buffer's beginning, which is nobody's.
  const Group idle{.buffer = {zero, zero},
                   .slot = zero,
                   .position = zero,
                   .end = zero,
                   .bit = zero,
                   .bits = zero,
                   .reach = zero,
                   .pairs = zero,
                   .out = zero,
                   .slots = {zero, zero},
                   .data = {data, data}};
  const Ends ends{coefficients, &source};
  Lanes lanes[kGroups];
  Group start[kGroups] = {idle, idle};
  for (Lanes& l : lanes) l.active = 0;
  // The lanes of both groups fill alike.
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kGroups; ++i) {
      Stream* const next = source.next(nullptr);
      if (next != nullptr) begin_lane(lane, next, ends, &lanes[i], &start[i]);
    }
  }
  Group a = start[0];
  Group b = start[1];
  a.slot = slots_at(constants, a);
  b.slot = slots_at(constants, b);
  const auto change_finished = [&](Lanes& l, Group& g) __attribute__((always_inline)) {
    const auto finished =
        static_cast<__mmask16>(l.active & _mm512_testn_epi32_mask(g.slot, g.slot));
    if (finished == 0) return;
    Group copy = g;
    change_lanes(constants, finished, ends, &l, &copy);
    g = copy;
  };
  while ((lanes[0].active | lanes[1].active) != 0) {
    refill(constants, a);
    refill(constants, b);
    for (int i = 0; i < kLookupsPerRefill; ++i) {
      const Entries of_a = look_up(constants, arena, a);
      const Entries of_b = look_up(constants, arena, b);
      apply(constants, of_a, coefficients, lanes[0], a);
      apply(constants, of_b, coefficients, lanes[1], b);
    }
    change_finished(lanes[0], a);
    change_finished(lanes[1], b);
  }
}

}  // namespace forebay::jpeg
