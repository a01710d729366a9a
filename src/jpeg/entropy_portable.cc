// Entropy decoding in six lanes of plain code: what runs everywhere, and for one or two streams
// the fastest.
#include <bit>
#include <cstring>
#include <utility>

#include "jpeg/entropy.h"

namespace forebay::jpeg {
namespace {

constexpr uint32_t kPositions = 64;  // of a block
constexpr uint64_t kNoneConsumed = 1;

// What of a stream changes with each lookup. Positions count up to 0, the slice's end.
struct Course {
  // The next bits, the first on top. A refill sets the lowest bit, which no lookup reaches; the
  // zeros below it then count what was consumed.
  uint64_t buffer = kNoneConsumed;
  const Entry* table = nullptr;
  int64_t last = 0;  // position that was moved over last
};

// One stream on its way.
struct Lane {
  Course course;
  const uint16_t* slots = nullptr;  // StreamTables::marked_slots, from the slice's end
  int16_t* end = nullptr;
  uint64_t bit = 0;  // but for what was consumed
  // The sum of the marked slots where lookups began, but for those of values: its lower bits count
  // the blocks. A run that leaves its block moves over the next one's beginning.
  uint32_t begun = 0;
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
      look_up(std::make_index_sequence<kLanes>());
      int64_t all = -1;
      for (const Lane& lane : lanes_) all &= lane.course.last + 1;
      if (all >= 0) end_finished();
    }
  }

 private:
  // The courses are in registers, most of them.
  template <size_t... kNumbers>
  void look_up(std::index_sequence<kNumbers...>) {
    std::array<Course, kLanes> courses{lanes_[kNumbers].course...};
    for (int i = 0; i < kLookupsPerRefill; ++i) (step(courses[kNumbers], lanes_[kNumbers]), ...);
    ((lanes_[kNumbers].course = courses[kNumbers]), ...);
  }

  void count_consumed(Lane& lane) {
    lane.bit += static_cast<uint64_t>(std::countr_zero(lane.course.buffer));
    lane.course.buffer = kNoneConsumed;
  }

  void refill(Lane& lane) {
    count_consumed(lane);
    lane.course.buffer = peek_bits(*lane.stream, lane.bit) | kNoneConsumed;
  }

  [[gnu::always_inline]] void step(Course& course, Lane& lane) {
    const Entry entry = course.table[course.buffer >> (64 - kLookupBits)];
    course.buffer <<= entry_length(entry);
    static_assert((kValueNext & kNotHere) == kValueNext && kPlain == 0 && kEndOfBlock == 1);
    if ((entry & (Entry{kValueNext} << 14 | kToLong)) != 0) [[unlikely]] {
      course = look_further(course, entry, lane);
      return;
    }
    // All ones for the end of a block.
    const auto ends = static_cast<int32_t>(static_cast<uint32_t>(entry) << (31 - 14)) >> 31;
    course.last = move(course, entry, lane) | (ends & static_cast<int32_t>(kPositions - 1));
    course.table = next_table(course, lane);
  }

  // Over an entry's coefficients, which are stored.
  [[gnu::always_inline]] int64_t move(const Course& course, Entry entry, const Lane& lane) {
    const uint64_t values = entry >> 16;
    const int64_t first = course.last + entry_lead(entry);
    std::memcpy(lane.end + 1 + first, &values, sizeof values);
    return first + entry_count(entry);
  }

  [[gnu::always_inline]] const Entry* next_table(const Course& course, Lane& lane) {
    const uint32_t slot = lane.slots[course.last + 1];
    lane.begun += slot;
    return arena_ + StreamTables::first_entry(slot);
  }

  [[gnu::always_inline]] Course look_further(Course course, Entry entry, Lane& lane) {
    if (entry_flag(entry) == kValueNext) {
      course.last = move(course, entry, lane);
      course.table = arena_ + entry_value_lookup(entry);
    } else if (entry == kLongCode) {
      course.table = arena_ + StreamTables::first_entry(lane.slots[course.last + 1]) + kToLong;
    } else {
      lane.course = course;
      take_slow(lane, entry);
      course = lane.course;
    }
    return course;
  }

  [[gnu::noinline]] void take_slow(Lane& lane, Entry entry) {
    const int64_t positions = int64_t{lane.stream->blocks} * kPositions;
    const auto position = static_cast<uint32_t>(lane.course.last + 1 + positions);
    count_consumed(lane);
    const int32_t moved = entry == kNoCode ? -1 : decode_slow(*lane.stream, position, &lane.bit);
    lane.course.last = moved < 0 ? -1 : moved - positions - 1;
    lane.course.table = next_table(lane.course, lane);
    if (moved < 0) lane.begun = 0;
    refill(lane);  // it may have taken more bits than a lookup does
  }

  void end_finished() {
    for (Lane& lane : lanes_) {
      if (lane.course.last < -1 || lane.course.table != idle_) continue;
      Stream& stream = *lane.stream;
      count_consumed(lane);
      stream.bit = lane.bit;
      stream.bad = StreamTables::block_count(lane.begun) != stream.blocks ||
                   lane.course.last != -1 || lane.bit > stream.bits;
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
    lane.slots = stream->tables->marked_slots_from_end();
    lane.course.last = -static_cast<int64_t>(stream->blocks) * kPositions - 1;
    lane.end = stream->out - (lane.course.last + 1);
    lane.bit = stream->bit;
    lane.begun = 0;
    lane.course.table = next_table(lane.course, lane);
  }

  void begin_idle(Lane& lane) {
    lane.stream = &idle_stream_;
    lane.slots = idle_slots_.data() + kPositions;
    lane.course.last = -2;
    lane.end = idle_out_.data() + kPositions;
    lane.bit = 0;
    lane.course.table = idle_;
  }

  const std::span<const uint8_t> walked_;
  const Entry* const arena_;
  const Entry* const idle_ = arena_ + size_t{LookupArena::kIdleSlot} * kLookupEntries;
  StreamSource& source_;
  size_t active_ = 0;
  std::array<Lane, kLanes> lanes_{};
  std::array<uint16_t, 2 * kPositions> idle_slots_{};
  std::array<int16_t, kPositions + kSlicePadding> idle_out_{};
  std::array<uint8_t, kStreamPadding> idle_data_{};
  Stream idle_stream_{.data = idle_data_.data()};
};

}  // namespace

void decode_slices_portable(const StreamsAhead& ahead, const Entry* arena, StreamSource& source) {
  constexpr size_t kLanes = streams_at_once(EntropyKernel::kPortable);
  if (ahead.count == 1) {
    Interleaved<1>(ahead, arena, source).run();
  } else if (ahead.count == 2) {
    Interleaved<2>(ahead, arena, source).run();
  } else {
    Interleaved<kLanes>(ahead, arena, source).run();
  }
}

}  // namespace forebay::jpeg
