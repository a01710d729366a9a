// Entropy decoding in 8 or 16 lanes: one or two groups of eight, so that the loads of one group
// overlap with the arithmetic of the other. Table entries are loaded lane by lane: gathers of AVX2
// are no faster, and are known to be much slower on some processors. No compiler flags of its own
// are needed, because all code for x86 may use AVX2.
#include "jpeg/kernels/entropy_avx2-inl.h"

namespace forebay::jpeg {
namespace {

// The state of all lanes in memory, for the slow paths.
struct State {
  explicit State(const Group& g)
      : last(g.last), bit(g.bit), crossed(g.crossed), dc{Sums(g.dc[0]), Sums(g.dc[1])} {}
  using Sums = Spilled<int16_t>;
  Spilled<int32_t> last;
  Spilled<uint32_t> bit;
  Spilled<uint32_t> crossed;
  std::array<Sums, 2> dc;
};

int32_t last_place(const Stream& stream) {
  return static_cast<int32_t>(stream.blocks << kBlockShift) - 1;
}

// How far a block's component is shifted in Group::dc. The upper bytes of a number look up the
// first block, whose component is 0, so they stay 0.
[[gnu::always_inline]] inline __m256i shift_of(const Constants& c, __m256i block) {
  const __m256i first = _mm256_shuffle_epi8(c.dc_shift[0], block);
  const __m256i second = _mm256_shuffle_epi8(c.dc_shift[1], block);
  return _mm256_blendv_epi8(first, second, _mm256_slli_epi32(block, 3));
}

// Adds the DC difference that was just decoded at `place`.
void add_dc(const Constants& c, const Stream& stream, uint32_t place, size_t lane, State* to) {
  const __m256i block = _mm256_set1_epi32(static_cast<int>(place >> kBlockShift));
  const auto shift = static_cast<uint32_t>(_mm256_cvtsi256_si32(shift_of(c, block)));
  int16_t& dc = to->dc[shift / 32][2 * lane + shift / 16 % 2];
  dc = static_cast<int16_t>(dc + stream.out[place]);
}

// Handles the lanes in `slow`: those in `none` met kNoCode, the others met kSlowCode.
template <Mode kMode>
[[gnu::noinline]] void take_slow(const Constants& c, const Lanes& lanes, uint32_t slow,
                                 uint32_t none, Group* g) {
  count_consumed(*g);
  State state(*g);
  for (uint32_t left = slow; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    const Stream& stream = *lanes.stream[lane];
    const auto place = static_cast<uint32_t>(state.last[lane] + 1);
    uint64_t at = state.bit[lane];
    const bool bad = (none >> lane & 1) != 0;
    const int32_t moved = bad ? -1 : decode_slow(stream, place, &at);
    state.bit[lane] = static_cast<uint32_t>(at);
    if (moved < 0) {
      state.crossed[lane] = 1u << kBlockShift;
      state.last[lane] = last_place(stream);
    } else {
      state.last[lane] = moved - 1;
      if (kMode == kWalk && (place & kPositionMask) == 0) add_dc(c, stream, place, lane, &state);
    }
  }
  g->last = load(state.last.lanes);
  g->bit = load(state.bit.lanes);
  g->crossed = load(state.crossed.lanes);
  if constexpr (kMode == kWalk) {
    for (size_t i = 0; i < 2; ++i) g->dc[i] = load(state.dc[i].lanes);
  }
  refill(c, lanes, *g);
}

// Handles the lanes in `nowhere`, which met kNowhere. `before` is the earlier value of `last`.
template <Mode kMode>
[[gnu::always_inline]] inline void look_further(const Constants& c, const Lanes& lanes,
                                                __m256i words, __m256i nowhere, __m256i before,
                                                Group& g) {
  g.last = select(g.last, before, nowhere);
  static_assert((kNoCode & ~kSlowCode) == 1 << 6);
  const uint32_t slow = signs(nowhere);
  const uint32_t none = slow & signs(_mm256_slli_epi32(words, 31 - 6));
  take_slow<kMode>(c, lanes, slow, none, &g);
  const Next next = next_of<kMode>(c, g);
  g.is_dc = select(g.is_dc, next.is_dc, nowhere);
  g.slot = select(g.slot, next.slot, nowhere);
}

[[gnu::always_inline]] inline Wide look_up(const Entry* arena, const Group& g) {
  const __m256i top = _mm256_srli_epi32(upper(g.buffer[0], g.buffer[1]), 32 - kLookupBits);
  const Spilled<uint32_t> index(_mm256_or_si256(g.slot, top));
  return load_lanes([&](size_t lane) { return arena + index[lane]; });
}

void store_two(__m128i values, int16_t* first, int16_t* second) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(first), values);
  _mm_storeh_pi(reinterpret_cast<__m64*>(second), _mm_castsi128_ps(values));
}

// Stores the coefficients of all lanes at `places`, counted from `to`.
[[gnu::always_inline]] inline void store(const Wide& entries, __m256i places, int16_t* to) {
  const __m256i even = _mm256_srli_epi64(entries.even, 16);
  const __m256i odd = _mm256_srli_epi64(entries.odd, 16);
  const Spilled<uint32_t> at(places);
  store_two(_mm256_castsi256_si128(even), to + at[0], to + at[2]);
  store_two(_mm256_castsi256_si128(odd), to + at[1], to + at[3]);
  store_two(_mm256_extracti128_si256(even, 1), to + at[4], to + at[6]);
  store_two(_mm256_extracti128_si256(odd, 1), to + at[5], to + at[7]);
}

// An entry's first coefficient lies in the upper half of its lower word.
[[gnu::always_inline]] inline void sum_dc(const Constants& c, __m256i words, Group& g) {
  const __m256i values = _mm256_and_si256(g.is_dc, _mm256_srli_epi32(words, 16));
  const __m256i place = _mm256_add_epi32(g.last, _mm256_set1_epi32(1));
  const __m256i shift = shift_of(c, _mm256_srli_epi32(place, kBlockShift));
  const __m256i is_third = _mm256_cmpeq_epi32(shift, _mm256_set1_epi32(32));
  g.dc[0] = _mm256_add_epi16(g.dc[0], _mm256_sllv_epi32(values, shift));
  g.dc[1] = _mm256_add_epi32(g.dc[1], _mm256_and_si256(values, is_third));
}

template <Mode kMode>
[[gnu::always_inline]] inline void apply(const Constants& c, const Wide& entries, const Ends& ends,
                                         const Lanes& lanes, Group& g) {
  const __m256i words = lower(entries.even, entries.odd);
  const __m256i length = _mm256_set1_epi64x(kLengthMask);
  g.buffer[0] = _mm256_sllv_epi64(g.buffer[0], _mm256_and_si256(entries.even, length));
  g.buffer[1] = _mm256_sllv_epi64(g.buffer[1], _mm256_and_si256(entries.odd, length));
  g.consumed = _mm256_add_epi32(g.consumed, words);

  const __m256i before = g.last;
  const __m256i first = _mm256_add_epi32(before, and_with(_mm256_srli_epi32(words, 8), 15));
  if constexpr (kMode == kWalk) {
    sum_dc(c, words, g);
  } else {
    store(entries, _mm256_add_epi32(first, g.base), ends.coefficients + 1);
  }

  const __m256i moved = _mm256_add_epi32(first, and_with(_mm256_srli_epi32(words, 6), 3));
  const __m256i ends_block = _mm256_slli_epi32(words, kEndOfBlockToSign);
  const __m256i value_next = _mm256_slli_epi32(words, kValueNextToSign);
  const __m256i left = _mm256_andnot_si256(g.is_dc, _mm256_xor_si256(moved, before));
  g.crossed = _mm256_or_si256(g.crossed, left);
  const __m256i block_end = _mm256_or_si256(moved, _mm256_set1_epi32(kPositionMask));
  g.last = select(moved, block_end, ends_block);
  const Next next = next_of<kMode>(c, g);
  // A value belongs to the symbol before it.
  g.is_dc = select(next.is_dc, g.is_dc, value_next);
  static_assert(LookupArena::kValueSlots == 1);
  const __m256i value_slot = _mm256_srli_epi32(upper(entries.even, entries.odd), 16);
  const __m256i slot = _mm256_or_si256(next.slot, and_with(words, kToLong));
  g.slot = select(slot, value_slot, value_next);
  static_assert((kEndOfBlock | kValueNext) == kNowhere);
  const __m256i nowhere = _mm256_and_si256(ends_block, value_next);
  if (signs(nowhere) != 0) [[unlikely]] {
    look_further<kMode>(c, lanes, words, nowhere, before, g);
  }
}

__m256i is_lane(size_t lane) {
  const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpeq_epi32(numbers, _mm256_set1_epi32(static_cast<int>(lane)));
}

void set_lane(__m256i* v, __m256i is_lane, uint32_t value) {
  *v = select(*v, _mm256_set1_epi32(static_cast<int>(value)), is_lane);
}

std::array<uint8_t, 8> ordered_slots(const StreamTables& tables) {
  std::array<uint8_t, 8> ordered{};
  for (size_t pair = 0; pair < 2; ++pair) {
    for (size_t kind = 0; kind < 3; ++kind) {
      ordered[slot_index(pair, kind)] = tables.slots[pair * 4 + kind];
    }
  }
  return ordered;
}

template <Mode kMode>
void begin_lane(size_t lane, Stream* stream, const Ends& ends, Lanes* lanes, Group* g) {
  lanes->stream[lane] = stream;
  lanes->data[lane] = stream->data;
  lanes->active |= 1u << lane;
  const __m256i here = is_lane(lane);
  set_lane(&g->last, here, ~0u);
  set_lane(&g->end, here, static_cast<uint32_t>(last_place(*stream)));
  set_lane(&g->bit, here, static_cast<uint32_t>(stream->bit));
  set_lane(&g->bits, here, static_cast<uint32_t>(stream->bits));
  set_lane(&g->crossed, here, 0);
  static_assert(kSliceBlocks + 2 <= 32);
  set_lane(&g->pairs, here, stream->tables->pairs << 2);
  set_lane(&g->base, here, static_cast<uint32_t>(stream->out - ends.coefficients));
  for (__m256i& dc : g->dc) set_lane(&dc, here, 0);
  if constexpr (kMode == kMixed) {
    const auto slots = std::bit_cast<long long>(ordered_slots(*stream->tables));
    const __m256i both = _mm256_set1_epi64x(slots);
    // Selects the 64 bits that the lane and its neighbour share.
    const __m256i place = is_lane(lane | 1);
    const __m256i wide = _mm256_or_si256(place, _mm256_srli_epi64(place, 32));
    g->slots[lane % 2] = _mm256_blendv_epi8(g->slots[lane % 2], both, wide);
  }
}

// Removes finished streams from their lanes and gives these lanes new streams.
template <Mode kMode>
[[gnu::noinline]] void change_lanes(const Constants& c, uint32_t finished, const Ends& ends,
                                    Lanes* lanes, Group* g) {
  const State state(*g);
  std::array<int32_t, kLanes> changed{};
  for (uint32_t left = finished; left != 0; left &= left - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(left));
    changed[lane] = -1;
    Stream& stream = *lanes->stream[lane];
    stream.bit = state.bit[lane];
    stream.bad = (state.crossed[lane] >> kBlockShift & 1) != 0 ||
                 state.last[lane] != last_place(stream) || stream.bit > stream.bits;
    if constexpr (kMode == kWalk) {
      stream.dc = {state.dc[0][2 * lane], state.dc[0][2 * lane + 1], state.dc[1][2 * lane]};
    }
    lanes->active &= ~(1u << lane);
    Stream* const next = ends.source->next(&stream);
    if (next != nullptr) begin_lane<kMode>(lane, next, ends, lanes, g);
  }
  const Next next = next_of<kMode>(c, *g);
  g->is_dc = select(g->is_dc, next.is_dc, load(changed));
  g->slot = select(g->slot, next.slot, load(changed));
}

Constants make_constants(const NextStreams& ahead) {
  std::array<uint8_t, 32> reverse;
  for (size_t i = 0; i < reverse.size(); ++i) {
    reverse[i] = static_cast<uint8_t>((i & 8) + 7 - (i & 7));
  }
  std::array<uint32_t, 8> slot_of{};
  if (ahead.tables != nullptr) {
    const auto ordered = ordered_slots(*ahead.tables);
    for (size_t i = 0; i < slot_of.size(); ++i) slot_of[i] = uint32_t{ordered[i]} << kLookupBits;
  }
  std::array<uint8_t, 32> shifts{};
  for (size_t block = 0; !ahead.walked.empty() && block < kSliceBlocks; ++block) {
    shifts[block] = static_cast<uint8_t>(16 * ahead.walked[block % ahead.walked.size()]);
  }
  const __m256i both = load(shifts);
  return {.slot_of = load(slot_of),
          .reverse = load(reverse),
          .dc_shift = {_mm256_permute2x128_si256(both, both, 0x00),
                       _mm256_permute2x128_si256(both, both, 0x11)}};
}

template <Mode kMode, size_t kGroups>
void decode(const Constants& c, const Entry* arena, const Ends& ends) {
  static constexpr std::array<uint8_t, kStreamPadding> kNoData{};
  // Lanes that never begin write four zeros to the beginning of the buffer, which no slice uses.
  // Lanes that have ended write them after their slice.
  std::array<Group, kGroups> groups{};
  std::array<Lanes, kGroups> lanes{};
  for (Lanes& l : lanes) l.data.fill(kNoData.data());
  // Streams go to both groups in turn, so that both are equally full.
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < kGroups; ++i) {
      Stream* const next = ends.source->next(nullptr);
      if (next != nullptr) begin_lane<kMode>(lane, next, ends, &lanes[i], &groups[i]);
    }
  }
  for (Group& g : groups) {
    const Next next = next_of<kMode>(c, g);
    g.is_dc = next.is_dc;
    g.slot = next.slot;
  }
  uint32_t active = 1;
  while (active != 0) {
    for (size_t i = 0; i < kGroups; ++i) refill(c, lanes[i], groups[i]);
    for (int n = 0; n < kLookupsPerRefill; ++n) {
      std::array<Wide, kGroups> entries;
#pragma GCC unroll 2
      for (size_t i = 0; i < kGroups; ++i) entries[i] = look_up(arena, groups[i]);
#pragma GCC unroll 2
      for (size_t i = 0; i < kGroups; ++i) {
        apply<kMode>(c, entries[i], ends, lanes[i], groups[i]);
      }
    }
    active = 0;
    for (size_t i = 0; i < kGroups; ++i) {
      Group& g = groups[i];
      count_consumed(g);
      const uint32_t idle = signs(_mm256_cmpeq_epi32(g.slot, _mm256_setzero_si256()));
      const uint32_t finished = lanes[i].active & idle;
      if (finished != 0) change_lanes<kMode>(c, finished, ends, &lanes[i], &g);
      active |= lanes[i].active;
    }
  }
}

template <size_t kGroups>
void decode_in_groups(const NextStreams& ahead, const Entry* arena, const Ends& ends) {
  const Constants constants = make_constants(ahead);
  if (ahead.tables == nullptr) {
    decode<kMixed, kGroups>(constants, arena, ends);
  } else if (ahead.walked.empty()) {
    decode<kCommon, kGroups>(constants, arena, ends);
  } else {
    decode<kWalk, kGroups>(constants, arena, ends);
  }
}

}  // namespace

void decode_slices_avx2(const NextStreams& ahead, const Entry* arena, int16_t* coefficients,
                        StreamSource& source) {
  static_assert(2 * kLanes == streams_at_once(EntropyKernel::kAvx2));
  const Ends ends{coefficients, &source};
  if (ahead.count <= kLanes) {
    decode_in_groups<1>(ahead, arena, ends);
  } else {
    decode_in_groups<2>(ahead, arena, ends);
  }
}

}  // namespace forebay::jpeg
