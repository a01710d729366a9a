#include "jpeg/entropy.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace forebay::jpeg {
namespace {

constexpr uint32_t kPositions = 64;   // of a block
constexpr int kLookupsPerRefill = 5;  // of 57 bits
static_assert(kLookupsPerRefill * kLookupBits <= 57);

// One stream on its way. Positions count up to 0, the slice's end, so that they are negative as
// long as there is work.
struct Lane {
  uint64_t buffer = 0;  // the next bits, the first on top
  const Entry* table = nullptr;
  const uint8_t* slots = nullptr;  // the lookup at each position, from the slice's end
  int16_t* end = nullptr;
  int64_t position = 0;
  uint64_t bit = 0;     // but for what was consumed since the refill:
  Entry consumed = 0;   // the sum of its lengths
  int64_t inside = -1;  // negative as long as no run has left its block
  Stream* stream = nullptr;
};

// What decode_slices_portable() works with; the buffers of idle lanes.
template <size_t kLanes>
class Interleaved {
 public:
  Interleaved(const StreamsAhead& ahead, const Entry* arena, StreamSource& source)
      : walked_(ahead.walked), arena_(arena), source_(source) {}

  void run() {
    for (Lane& lane : lanes_) begin(lane, source_.next(nullptr));
    while (active_ > 0) {
      for (Lane& lane : lanes_) refill(lane);
      for (int i = 0; i < kLookupsPerRefill; ++i) step_all(std::make_index_sequence<kLanes>());
      int64_t all = -1;
      for (const Lane& lane : lanes_) all &= lane.position;
      if (all >= 0) end_finished();
    }
  }

 private:
  template <size_t... kNumbers>
  void step_all(std::index_sequence<kNumbers...>) {
    (step(lanes_[kNumbers]), ...);
  }

  void count_consumed(Lane& lane) {
    lane.bit += entry_length(lane.consumed);
    lane.consumed = 0;
  }

  void refill(Lane& lane) {
    count_consumed(lane);
    lane.buffer = peek_bits(*lane.stream, lane.bit);
  }

  void step(Lane& lane) {
    const Entry entry = lane.table[lane.buffer >> (64 - kLookupBits)];
    lane.buffer <<= entry_length(entry);
    lane.consumed += entry;
    if (entry_flag(entry) == kNotHere) [[unlikely]] {
      look_further(lane, entry);
      return;
    }
    const uint64_t values = entry >> 16;
    const int64_t first = lane.position + entry_lead(entry);
    std::memcpy(lane.end + first, &values, sizeof values);

    const int64_t block = lane.position & ~int64_t{kPositions - 1};
    const auto value_next = static_cast<int64_t>(entry >> 15 & 1);
    const int64_t to_end = -static_cast<int64_t>(entry >> 14 & 1) & (kPositions - 1);
    const int64_t behind = first + entry_count(entry);
    lane.inside &= (behind + value_next - int64_t{kPositions + 1}) - block;
    lane.position = (behind + to_end) & ~to_end;
    const uint64_t of_position = lane.slots[lane.position] * uint64_t{kLookupEntries};
    lane.table = arena_ + (value_next != 0 ? entry_value_lookup(entry) : of_position);
  }

  void look_further(Lane& lane, Entry entry) {
    if (entry == kLongCode) {
      const uint32_t slot = LookupArena::long_slot(lane.slots[lane.position]);
      lane.table = arena_ + size_t{slot} * kLookupEntries;
    } else {
      take_slow(lane, entry);
    }
  }

  [[gnu::noinline]] void take_slow(Lane& lane, Entry entry) {
    const int64_t positions = int64_t{lane.stream->blocks} * kPositions;
    const auto position = static_cast<uint32_t>(lane.position + positions);
    count_consumed(lane);
    const int32_t moved = entry == kNoCode ? -1 : decode_slow(*lane.stream, position, &lane.bit);
    if (moved < 0) lane.inside = 0;
    lane.position = moved < 0 ? 0 : moved - positions;
    lane.table = arena_ + size_t{lane.slots[lane.position]} * kLookupEntries;
    refill(lane);  // it may have taken more bits than a lookup does
  }

  void end_finished() {
    for (Lane& lane : lanes_) {
      if (lane.position < 0 || lane.table != idle_) continue;
      Stream& stream = *lane.stream;
      count_consumed(lane);
      stream.bit = lane.bit;
      stream.bad = lane.inside >= 0 || lane.position > 0 || lane.bit > stream.bits;
      if (!walked_.empty()) sum_dc(stream);
      --active_;
      begin(lane, source_.next(&stream));
    }
  }

  void sum_dc(Stream& stream) const {
    stream.dc = {};
    for (uint32_t block = 0; block < stream.blocks; ++block) {
      int16_t& dc = stream.dc[walked_[block % walked_.size()]];
      dc = static_cast<int16_t>(dc + stream.out[size_t{block} * kPositions]);
    }
  }

  void begin(Lane& lane, Stream* stream) {
    if (stream == nullptr) {
      begin_idle(lane);
      return;
    }
    ++active_;
    lane.stream = stream;
    lane.slots = stream->tables->slots_from_end();
    lane.position = -static_cast<int64_t>(stream->blocks) * kPositions;
    lane.end = stream->out - lane.position;
    lane.bit = stream->bit;
    lane.consumed = 0;
    lane.inside = -1;
    lane.table = arena_ + size_t{lane.slots[lane.position]} * kLookupEntries;
  }

  void begin_idle(Lane& lane) {
    lane.stream = &idle_stream_;
    lane.slots = idle_slots_.data() + kPositions;
    lane.position = -1;
    lane.end = idle_out_.data() + kPositions;
    lane.bit = 0;
    lane.consumed = 0;
    lane.inside = -1;
    lane.table = idle_;
  }

  const std::span<const uint8_t> walked_;
  const Entry* const arena_;
  const Entry* const idle_ = arena_ + size_t{LookupArena::kIdleSlot} * kLookupEntries;
  StreamSource& source_;
  size_t active_ = 0;
  std::array<Lane, kLanes> lanes_{};
  std::array<uint8_t, 2 * kPositions> idle_slots_{};
  std::array<int16_t, kPositions + kSlicePadding> idle_out_{};
  std::array<uint8_t, kStreamPadding> idle_data_{};
  Stream idle_stream_{.data = idle_data_.data()};
};

// Walks the code's bits: T.81 figure F.16. -1 for no code.
int32_t slow_symbol(const CanonicalTable& table, uint64_t buffer, uint32_t* length) {
  const auto top = static_cast<int32_t>(buffer >> 48);
  for (*length = 1; *length <= 16; ++*length) {
    if (top >= table.code_end[*length]) continue;
    const int32_t index = table.first[*length] + (top >> (16 - *length));
    return table.values[static_cast<size_t>(index)];
  }
  return -1;
}

}  // namespace

CanonicalTable canonical_table(const HuffmanTable& table) {
  CanonicalTable out;
  out.values = table.values;
  int32_t code = 0;
  int32_t at = 0;
  for (uint32_t length = 1; length <= 16; ++length) {
    out.first[length] = at - code;
    at += table.bits[length - 1];
    code += table.bits[length - 1];
    out.code_end[length] = code << (16 - length);
    code <<= 1;
  }
  return out;
}

void StreamTables::complete(uint32_t blocks) {
  uint8_t* to = slot_at.data() + size_t{kSliceBlocksMax - blocks} * kPositions;
  for (uint32_t block = 0; block < blocks; ++block, to += kPositions) {
    const uint8_t* const of_pair = slots.data() + (pairs >> block & 1) * 4;
    to[0] = of_pair[kDc];
    std::memset(to + 1, of_pair[kAcChained], kSingleFrom - 1);
    std::memset(to + kSingleFrom, of_pair[kAcSingle], kPositions - kSingleFrom);
  }
  std::memset(to, LookupArena::kIdleSlot, kSlicePadding);
}

LookupArena::LookupArena()
    : entries_(std::make_unique_for_overwrite<Entry[]>(kSlots * kLookupEntries)) {
  std::ranges::fill(slot(kIdleSlot), Entry{0});
  for (uint32_t size = 1; size <= kLookupBits; ++size) {
    build_value_lookup(size, slot(kValueSlots - 1 + size));
  }
}

int32_t decode_slow(const Stream& stream, uint32_t position, uint64_t* bit) {
  const uint32_t k = position % kPositions;
  const uint32_t pair = stream.tables->pairs >> (position / kPositions) & 1;
  const CanonicalTable& table = *stream.tables->canonical[pair * 2 + (k == 0 ? 0 : 1)];
  const uint64_t buffer = peek_bits(stream, *bit);
  uint32_t length = 0;
  const int32_t symbol = slow_symbol(table, buffer, &length);
  if (symbol < 0 || !is_legal_symbol(k > 0, symbol)) return -1;
  *bit += length;
  if (k > 0 && symbol == 0) return static_cast<int32_t>(position - k + kPositions);
  const uint32_t run = k == 0 ? 0 : static_cast<uint32_t>(symbol) >> 4;
  const uint32_t size = k == 0 ? static_cast<uint32_t>(symbol) : static_cast<uint32_t>(symbol) & 15;
  if (k + run >= kPositions) return -1;
  const auto bits = size == 0 ? 0 : static_cast<uint32_t>(buffer << length >> (64 - size));
  stream.out[position + run] = static_cast<int16_t>(size == 0 ? 0 : extend(bits, size));
  *bit += size;
  return static_cast<int32_t>(position + run + 1);
}

void decode_slices_portable(const StreamsAhead& ahead, const Entry* arena, StreamSource& source) {
  constexpr size_t kLanes = streams_at_once(EntropyKernel::kPortable);
  static_assert(kLanes <= kStreamsMax);
  // Idle lanes cost as much as busy ones.
  if (ahead.count == 1) {
    Interleaved<1>(ahead, arena, source).run();
  } else if (ahead.count == 2) {
    Interleaved<2>(ahead, arena, source).run();
  } else {
    Interleaved<kLanes>(ahead, arena, source).run();
  }
}

EntropyKernel best_entropy_kernel() {
#ifdef FOREBAY_AVX512
  // Highway's AVX3 is F, BW, DQ and VL; where it is told to do without, so do we.
  const bool all =
      (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vbmi");
  if (all) return EntropyKernel::kAvx512;
#endif
  return EntropyKernel::kPortable;
}

void decode_slices(const KernelChoice& choice, const StreamsAhead& ahead, const LookupArena& arena,
                   [[maybe_unused]] int16_t* coefficients, StreamSource& source) {
  const EntropyKernel kernel = choice.for_streams(ahead.count);
#ifdef FOREBAY_AVX512
  if (kernel == EntropyKernel::kAvx512) {
    const uint8_t* const slots = ahead.tables == nullptr ? nullptr : ahead.tables->slots.data();
    decode_slices_avx512(slots, ahead.walked.data(), ahead.walked.size(), arena.entries(),
                         coefficients, source);
    return;
  }
#endif
  FOREBAY_CHECK(kernel == EntropyKernel::kPortable);
  decode_slices_portable(ahead, arena.entries(), source);
}

}  // namespace forebay::jpeg
