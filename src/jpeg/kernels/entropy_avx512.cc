// Entropy decoding in 32 lanes: two groups of 16, so that the gathers of one group overlap with the
// arithmetic of the other. Needs AVX-512 F, BW, DQ, VL and VBMI. This file is compiled for them, so
// it must not contain or use inline functions that the linker could share with other files.
#include "jpeg/kernels/entropy_avx512-inl.h"

namespace forebay::jpeg {
namespace {

// Stores a register whose lanes are loaded one by one right after. It takes two stores: on Intel's
// processors, a load from the upper half of a store of 64 bytes waits until that store has reached
// the cache.
[[gnu::always_inline]] inline void store_to_read(__m512i v, void* to) {
  auto* const halves = static_cast<__m256i*>(to);
  _mm256_store_si256(halves, _mm512_castsi512_si256(v));
  _mm256_store_si256(halves + 1, _mm512_extracti64x4_epi64(v, 1));
}

// The state of all lanes in memory, for access lane by lane.
struct State {
  explicit State(const Group& g) {
    store_to_read(g.last, last);
    store_to_read(g.bit, bit);
    store_to_read(g.crossed, crossed);
    for (int i = 0; i < 2; ++i) store_to_read(g.dc[i], dc[i]);
  }
  alignas(64) int32_t last[kLanes];
  alignas(64) uint32_t bit[kLanes];
  alignas(64) uint32_t crossed[kLanes];
  alignas(64) int16_t dc[2][2 * kLanes];
};

// The place of the coefficient before the first one of a slice, in the coefficients of all lanes.
// Walks keep no coefficients.
template <Mode kMode>
int32_t place_before(const Stream& stream, const Ends& ends) {
  return kMode == kWalk ? kNextBlock - 1 : static_cast<int32_t>(stream.out - ends.coefficients) - 1;
}

template <Mode kMode>
int32_t place_of_last(const Stream& stream, const Ends& ends) {
  return place_before<kMode>(stream, ends) + static_cast<int32_t>(stream.blocks << kBlockShift);
}

// Adds the DC difference that was just decoded at `position`.
void add_dc(const Constants& c, const Stream& stream, uint32_t position, int lane, State* to) {
  alignas(64) uint8_t shifts[64];
  _mm512_store_si512(shifts, c.dc_shift);
  const uint8_t shift = shifts[position >> kBlockShift];
  int16_t& dc = to->dc[shift / 32][2 * lane + shift / 16 % 2];
  dc = static_cast<int16_t>(dc + stream.out[position]);
}

// Handles the lanes in `slow`: those in `none` met kNoCode, the others met kSlowCode.
template <Mode kMode>
[[gnu::noinline]] void take_slow(const Constants& c, const Lanes& lanes, const Ends& ends,
                                 __mmask16 slow, __mmask16 none, Group* g) {
  count_consumed(*g);
  State state(*g);
  for (uint32_t left = slow; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const Stream& stream = *lanes.stream[lane];
    const int32_t before = place_before<kMode>(stream, ends);
    const auto position = static_cast<uint32_t>(state.last[lane] - before);
    uint64_t at = state.bit[lane];
    const bool bad = (none >> lane & 1) != 0;
    const int32_t moved = bad ? -1 : decode_slow(stream, position, &at);
    state.bit[lane] = static_cast<uint32_t>(at);
    if (moved < 0) {
      state.crossed[lane] = kNextBlock;
      state.last[lane] = place_of_last<kMode>(stream, ends);
    } else {
      state.last[lane] = before + moved;
      if (kMode == kWalk && position % kNextBlock == 0) add_dc(c, stream, position, lane, &state);
    }
  }
  g->last = _mm512_load_si512(state.last);
  g->bit = _mm512_load_si512(state.bit);
  g->crossed = _mm512_load_si512(state.crossed);
  for (int i = 0; i < 2; ++i) g->dc[i] = _mm512_load_si512(state.dc[i]);
  refill(c, *g);
}

// Handles the lanes in `nowhere`, which met kNowhere. `before` is the earlier value of `last`.
template <Mode kMode>
[[gnu::always_inline]] inline void look_further(const Constants& c, __m512i words,
                                                const Lanes& lanes, const Ends& ends,
                                                __mmask16 nowhere, __m512i before, Group& g) {
  g.last = _mm512_mask_mov_epi32(g.last, nowhere, before);
  static_assert((kNoCode & ~kSlowCode) == 1 << 6);
  const __mmask16 none = _mm512_mask_test_epi32_mask(nowhere, words, _mm512_set1_epi32(1 << 6));
  Group in_memory;  // a copy, so that g itself may stay in registers
  copy(g, &in_memory);
  take_slow<kMode>(c, lanes, ends, nowhere, none, &in_memory);
  copy(in_memory, &g);
  const Next next = next_of<kMode>(c, g);
  g.kind = _mm512_mask_mov_epi32(g.kind, nowhere, next.kind);
  g.slot = _mm512_mask_mov_epi32(g.slot, nowhere, next.slot);
}

// 64 bits for each lane.
struct Wide {
  __m512i even;
  __m512i odd;
};

[[gnu::always_inline]] inline Wide look_up(const Entry* arena, const Group& g) {
  const __m512i top = _mm512_srli_epi32(upper(g.buffer[0], g.buffer[1]), 32 - kLookupBits);
  const __m512i index = _mm512_or_si512(g.slot, top);
  return {gather_entries(arena, even_lanes(index)), gather_entries(arena, odd_lanes(index))};
}

// Stores the coefficients of 16 lanes at `places`, counted from `to`.
[[gnu::always_inline]] inline void store(__m512i even, __m512i odd, __m512i places, int16_t* to) {
  alignas(64) uint64_t values[2][kLanes / 2];
  alignas(64) uint64_t at[kLanes / 2];
  store_to_read(_mm512_srli_epi64(even, 16), values[0]);
  store_to_read(_mm512_srli_epi64(odd, 16), values[1]);
  store_to_read(places, at);
  // Goes through memory, two places at once: extracting them from registers by shuffles is slower.
  asm("" : "+m"(values), "+m"(at));
  for (int pair = 0; pair < kLanes / 2; ++pair) {
    __builtin_memcpy(to + static_cast<uint32_t>(at[pair]), &values[0][pair], sizeof(uint64_t));
    __builtin_memcpy(to + (at[pair] >> 32), &values[1][pair], sizeof(uint64_t));
  }
}

// An entry's first coefficient lies in the upper half of its lower word.
[[gnu::always_inline]] inline void sum_dc(const Constants& c, __m512i words, Group& g) {
  const __mmask16 are_dc = _mm512_test_epi32_mask(g.kind, _mm512_set1_epi32(kCrosses));
  const __m512i values = _mm512_maskz_srli_epi32(are_dc, words, 16);
  // The block is the one after `last`; the number of the first block is 1.
  const __m512i block = _mm512_srli_epi32(g.last, kBlockShift);
  const __m512i shift = _mm512_permutexvar_epi8(block, c.dc_shift);
  const __mmask16 third = _mm512_test_epi32_mask(shift, _mm512_set1_epi32(32));
  g.dc[0] = _mm512_add_epi16(g.dc[0], _mm512_sllv_epi32(values, shift));
  g.dc[1] = _mm512_mask_add_epi32(g.dc[1], third, g.dc[1], values);
}

template <Mode kMode>
[[gnu::always_inline]] inline void apply(const Constants& c, const Wide& entries, const Ends& ends,
                                         const Lanes& lanes, Group& g) {
  const auto [even, odd] = entries;
  const __m512i words = lower(even, odd);
  // The number of bits is taken modulo 64; the bits that come in at the bottom are never reached.
  g.buffer[0] = _mm512_rolv_epi64(g.buffer[0], even);
  g.buffer[1] = _mm512_rolv_epi64(g.buffer[1], odd);
  g.consumed = _mm512_add_epi32(g.consumed, words);

  const __m512i before = g.last;
  const __m512i first = _mm512_add_epi32(before, and_with(_mm512_srli_epi32(words, 8), 15));
  if constexpr (kMode == kWalk) {
    sum_dc(c, words, g);
  } else {
    store(even, odd, first, ends.coefficients + 1);
  }

  const __m512i moved = _mm512_add_epi32(first, and_with(_mm512_srli_epi32(words, 6), 3));
  const __mmask16 ends_block = _mm512_test_epi32_mask(words, _mm512_set1_epi32(kEndOfBlock << 14));
  const __mmask16 value_next = _mm512_test_epi32_mask(words, _mm512_set1_epi32(kValueNext << 14));
  // (moved ^ before) & ~kind
  g.crossed = _mm512_or_si512(g.crossed, _mm512_ternarylogic_epi32(moved, before, g.kind, 0x14));
  g.last = _mm512_mask_or_epi32(moved, ends_block, moved, _mm512_set1_epi32(63));
  const Next next = next_of<kMode>(c, g);
  // A value belongs to the symbol before it.
  g.kind = _mm512_mask_mov_epi32(next.kind, value_next, g.kind);
  static_assert(LookupArena::kValueSlots == 1 && LookupArena::kIdleSlot == 0);
  // next.slot | (words & kToLong)
  const __m512i slot = _mm512_ternarylogic_epi32(
      next.slot, words, _mm512_set1_epi32(static_cast<int>(kToLong)), 0xF8);
  g.slot = _mm512_mask_srli_epi32(slot, value_next, upper(even, odd), 16);
  static_assert((kEndOfBlock | kValueNext) == kNowhere);
  if (_ktestz_mask16_u8(ends_block, value_next) == 0) [[unlikely]] {
    look_further<kMode>(c, words, lanes, ends, static_cast<__mmask16>(ends_block & value_next),
                        before, g);
  }
}

template <Mode kMode>
void begin_lane(int lane, Stream* stream, const Ends& ends, Lanes* lanes, Group* g) {
  const auto one = static_cast<__mmask16>(1u << lane);
  const int half = half_of(lane);
  const StreamTables& tables = *stream->tables;
  lanes->stream[lane] = stream;
  lanes->active |= one;
  const int32_t before = place_before<kMode>(*stream, ends);
  const auto first_block = static_cast<uint32_t>(before + 1) >> kBlockShift;
  const uint32_t turned = (first_block + 2) % 32;
  const uint32_t pairs = tables.pairs << turned | tables.pairs >> (-turned % 32);
  g->last = _mm512_mask_set1_epi32(g->last, one, before);
  g->end = _mm512_mask_set1_epi32(g->end, one, place_of_last<kMode>(*stream, ends));
  g->bit = _mm512_mask_set1_epi32(g->bit, one, static_cast<int>(stream->bit));
  g->bits = _mm512_mask_set1_epi32(g->bits, one, static_cast<int>(stream->bits));
  g->crossed = _mm512_mask_set1_epi32(g->crossed, one, 0);
  for (__m512i& dc : g->dc) dc = _mm512_mask_set1_epi32(dc, one, 0);
  g->pairs = _mm512_mask_set1_epi32(g->pairs, one, static_cast<int>(pairs));
  g->data[half] = _mm512_mask_set1_epi64(g->data[half], place_of(lane),
                                         reinterpret_cast<long long>(stream->data));
  long long slots = 0;
  __builtin_memcpy(&slots, &tables.slots, sizeof slots);
  g->slots[lane >> 3] =
      _mm512_mask_set1_epi64(g->slots[lane >> 3], static_cast<__mmask8>(1u << (lane & 7)), slots);
}

// Removes finished streams from their lanes and gives these lanes new streams.
template <Mode kMode>
[[gnu::noinline]] void change_lanes(const Constants& c, __mmask16 finished, const Ends& ends,
                                    Lanes* lanes, Group* g) {
  const State state(*g);
  for (uint32_t left = finished; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    Stream& stream = *lanes->stream[lane];
    stream.bit = state.bit[lane];
    stream.bad = (state.crossed[lane] & kNextBlock) != 0 ||
                 state.last[lane] != place_of_last<kMode>(stream, ends) || stream.bit > stream.bits;
    stream.dc = {state.dc[0][2 * lane], state.dc[0][2 * lane + 1], state.dc[1][2 * lane]};
    lanes->active = static_cast<__mmask16>(lanes->active & ~(1u << lane));
    Stream* const next = ends.source->next(&stream);
    if (next != nullptr) begin_lane<kMode>(lane, next, ends, lanes, g);
  }
  const Next next = next_of<kMode>(c, *g);
  g->kind = _mm512_mask_mov_epi32(g->kind, finished, next.kind);
  g->slot = _mm512_mask_mov_epi32(g->slot, finished, next.slot);
}

Constants make_constants(const uint8_t* slots, const uint8_t* walked, size_t mcu_blocks) {
  alignas(64) uint8_t shifts[64] = {};
  for (size_t block = 0; walked != nullptr && block < kSliceBlocks; ++block) {
    shifts[block] = static_cast<uint8_t>(16 * walked[block % mcu_blocks]);
  }
  alignas(64) uint8_t kinds[64];
  alignas(64) uint32_t slot_of[16];
  alignas(64) uint32_t first[16];
  alignas(64) uint8_t reverse[64];
  for (uint32_t k = 0; k < 64; ++k) {
    // After position 63 comes position 0 of the next block.
    kinds[k] = k == 63 ? kDc | kCrosses : k + 1 < kSingleFrom ? kChained : kSingle;
    reverse[k] = static_cast<uint8_t>((k & 8) + 7 - (k & 7));
  }
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t kind = i % 4;
    const uint32_t pair = kind == kDc ? i / 8 : i / 4 % 2;
    slot_of[i] = slots == nullptr ? 0 : uint32_t{slots[pair * 4 + kind]} << kLookupBits;
    first[i] = 8 * i;
  }
  return {_mm512_load_si512(kinds), _mm512_load_si512(slot_of), _mm512_load_si512(first),
          _mm512_load_si512(reverse), _mm512_load_si512(shifts)};
}

template <Mode kMode>
void decode(const Constants& constants, const Entry* arena, const Ends& ends) {
  alignas(64) static constexpr uint8_t kNoData[kStreamPadding] = {};
  const __m512i zero = _mm512_setzero_si512();
  const __m512i data = _mm512_set1_epi64(reinterpret_cast<long long>(kNoData));
  // Lanes that never begin write four zeros to the beginning of the buffer, which no slice uses.
  // Lanes that have ended write them after their slice.
  const Group idle{.buffer = {zero, zero},
                   .slot = zero,
                   .last = zero,
                   .end = zero,
                   .bit = zero,
                   .consumed = zero,
                   .bits = zero,
                   .kind = zero,
                   .crossed = zero,
                   .pairs = zero,
                   .data = {data, data},
                   .slots = {zero, zero},
                   .dc = {zero, zero}};
  Lanes lanes[kGroups];
  Group start[kGroups] = {idle, idle};
  for (Lanes& l : lanes) l.active = 0;
  // Streams go to both groups in turn, so that both are equally full.
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kGroups; ++i) {
      Stream* const next = ends.source->next(nullptr);
      if (next != nullptr) begin_lane<kMode>(lane, next, ends, &lanes[i], &start[i]);
    }
  }
  for (Group& g : start) {
    const Next next = next_of<kMode>(constants, g);
    g.kind = next.kind;
    g.slot = next.slot;
  }
  Group a = start[0];
  Group b = start[1];
  const auto change_finished = [&](Lanes& l, Group& g) __attribute__((always_inline)) {
    const auto finished =
        static_cast<__mmask16>(l.active & _mm512_testn_epi32_mask(g.slot, g.slot));
    if (finished == 0) return;
    Group in_memory;
    copy(g, &in_memory);
    change_lanes<kMode>(constants, finished, ends, &l, &in_memory);
    copy(in_memory, &g);
  };
  while ((lanes[0].active | lanes[1].active) != 0) {
    refill(constants, a);
    refill(constants, b);
    for (int i = 0; i < kLookupsPerRefill; ++i) {
      const Wide of_a = look_up(arena, a);
      const Wide of_b = look_up(arena, b);
      apply<kMode>(constants, of_a, ends, lanes[0], a);
      apply<kMode>(constants, of_b, ends, lanes[1], b);
    }
    count_consumed(a);
    count_consumed(b);
    change_finished(lanes[0], a);
    change_finished(lanes[1], b);
  }
}

}  // namespace

void decode_slices_avx512(const uint8_t* slots, const uint8_t* walked, size_t mcu_blocks,
                          const Entry* arena, int16_t* coefficients, StreamSource& source) {
  static_assert(kLanes * kGroups == streams_at_once(EntropyKernel::kAvx512));
  const Ends ends{coefficients, &source};
  const Constants constants = make_constants(slots, walked, mcu_blocks);
  if (slots == nullptr) {
    decode<kMixed>(constants, arena, ends);
  } else if (walked == nullptr) {
    decode<kCommon>(constants, arena, ends);
  } else {
    decode<kWalk>(constants, arena, ends);
  }
}

}  // namespace forebay::jpeg
