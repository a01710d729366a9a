// Entropy decoding in six lanes of plain code. It runs everywhere, and is the fastest kernel for
// one or two streams.
#include <bit>
#include <cstring>
#include <utility>

#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {
namespace {

constexpr uint32_t kPositions = 64;  // in a block
constexpr uint64_t kNoneConsumed = 1;
// The entry of StreamTables::marked_lookups for an idle lane.
constexpr uint32_t kIdle = LookupArena::kIdleSlot * kLookupEntries;
static_assert(kIdle == 0);

// The part of a stream's state that changes with each lookup. Positions count up to 0, the end of
// the slice.
struct Course {
  // The next bits, where the first is the highest. A refill sets the lowest bit, which no lookup
  // reaches. The number of zeros below it is then the number of consumed bits.
  uint64_t buffer = kNoneConsumed;
  int64_t last = 0;   // the last position that was passed
  uint32_t next = 0;  // the next lookup, marked like StreamTables::marked_lookups
};

// A lane with the stream that it decodes.
struct Lane {
  Course course;
  const uint32_t* lookups =
      nullptr;  // StreamTables::marked_lookups, counted from the end of the slice
  int16_t* end = nullptr;
  uint64_t bit = 0;  // the position at the last refill
  // The sum of marked lookups; its lower bits count blocks. A run that leaves its block skips the
  // beginning of the next block, so the count is then wrong.
  uint32_t begun = 0;
  Stream* stream = nullptr;
};

// The state of decode_slices_portable(), including buffers for idle lanes.
template <size_t kLanes>
class Interleaved {
 public:
  Interleaved(const NextStreams& ahead, const Entry* arena, StreamSource& source)
      : walked_(ahead.walked), arena_(arena), source_(source) {}

  void run() {
    for (Lane& lane : lanes_) begin(lane, source_.next(nullptr));
    while (active_ > 0) {
      for (Lane& lane : lanes_) refill(lane.course, lane);
      look_up_all(std::make_index_sequence<kLanes>());
      int64_t all = -1;
      for (const Lane& lane : lanes_) all &= lane.course.last + 1;
      if (all >= 0) end_finished();
    }
  }

 private:
  // Most of the courses are in registers.
  template <size_t... kNumbers>
  void look_up_all(std::index_sequence<kNumbers...>) {
    std::array<Course, kLanes> courses{lanes_[kNumbers].course...};
    for (int i = 0; i < kLookupsPerRefill; ++i) (step(courses[kNumbers], lanes_[kNumbers]), ...);
    ((lanes_[kNumbers].course = courses[kNumbers]), ...);
  }

  static void count_consumed(Course& course, Lane& lane) {
    lane.bit += static_cast<uint64_t>(std::countr_zero(course.buffer));
    course.buffer = kNoneConsumed;
  }

  static void refill(Course& course, Lane& lane) {
    count_consumed(course, lane);
    course.buffer = peek_bits(*lane.stream, lane.bit) | kNoneConsumed;
  }

  [[gnu::always_inline]] void step(Course& course, Lane& lane) {
    const Entry entry = look_up(course, StreamTables::first_entry(course.next));
    if (is_away(entry)) [[unlikely]] {
      course = look_further(course, entry, lane);
      return;
    }
    apply(course, entry, lane);
  }

  [[gnu::always_inline]] Entry look_up(Course& course, size_t first_entry) {
    const Entry entry = arena_[first_entry + (course.buffer >> (64 - kLookupBits))];
    course.buffer <<= entry_length(entry);
    return entry;
  }

  // Stores the coefficients of an entry and moves past them.
  [[gnu::always_inline]] static void apply(Course& course, Entry entry, Lane& lane) {
    const int64_t first = course.last + entry_lead(entry);
    const uint64_t values = entry >> 16;
    std::memcpy(lane.end + 1 + first, &values, sizeof values);
    // The flag for the end of a block becomes kPositions - 1.
    static_assert(kEndOfBlock << 14 == 1 << 15 && kPositions - 1 == ~0u >> 26);
    const uint32_t ends = static_cast<uint32_t>(static_cast<int16_t>(entry)) >> 26;
    course.last = (first + entry_count(entry)) | ends;
    const uint32_t after = lane.lookups[course.last + 1];
    static_assert(LookupArena::kValueSlots == 1);
    // Uses no branch, because it would often be mispredicted: one entry in twenty is a kValueNext.
    const bool value_next = (entry & Entry{kValueNext} << 14) != 0;
    course.next =
        __builtin_expect_with_probability(value_next, 1, 0.5) ? entry_value_lookup(entry) : after;
    lane.begun += course.next;
  }

  [[gnu::always_inline]] Course look_further(Course course, Entry entry, Lane& lane) {
    if (entry == kLongCode) {
      const size_t first = StreamTables::first_entry(course.next) + kToLong;
      refill(course, lane);  // two lookups in a row may take too many bits
      entry = look_up(course, first);
    }
    if (is_away(entry)) {
      lane.course = course;
      take_slow(lane, entry);
      course = lane.course;
    } else {
      apply(course, entry, lane);
    }
    return course;
  }

  [[gnu::noinline]] void take_slow(Lane& lane, Entry entry) {
    Course& course = lane.course;
    const int64_t positions = int64_t{lane.stream->blocks} * kPositions;
    const auto position = static_cast<uint32_t>(course.last + 1 + positions);
    count_consumed(course, lane);
    const int32_t moved = entry == kNoCode ? -1 : decode_slow(*lane.stream, position, &lane.bit);
    if (moved < 0) lane.begun = 0;
    begin_at(moved < 0 ? -1 : moved - positions - 1, lane);
    refill(course, lane);  // the symbol may have taken more bits than a lookup does
  }

  static void begin_at(int64_t last, Lane& lane) {
    lane.course.last = last;
    lane.course.next = lane.lookups[last + 1];
    lane.begun += lane.course.next;
  }

  void end_finished() {
    for (Lane& lane : lanes_) {
      if (lane.course.last < -1 || lane.course.next != kIdle) continue;
      Stream& stream = *lane.stream;
      count_consumed(lane.course, lane);
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
    lane.lookups = stream->tables->marked_lookups_from_end();
    const int64_t last = -static_cast<int64_t>(stream->blocks) * kPositions - 1;
    lane.end = stream->out - (last + 1);
    lane.bit = stream->bit;
    lane.begun = 0;
    begin_at(last, lane);
  }

  void begin_idle(Lane& lane) {
    lane.stream = &idle_stream_;
    lane.lookups = idle_lookups_.data() + kPositions;
    lane.end = idle_out_.data() + kPositions;
    lane.bit = 0;
    begin_at(-2, lane);
  }

  const std::span<const uint8_t> walked_;
  const Entry* const arena_;
  StreamSource& source_;
  size_t active_ = 0;
  std::array<Lane, kLanes> lanes_{};
  std::array<uint32_t, 2 * kPositions> idle_lookups_{};  // kIdle
  std::array<int16_t, kPositions + kSlicePadding> idle_out_{};
  std::array<uint8_t, kStreamPadding> idle_data_{};
  Stream idle_stream_{.data = idle_data_.data()};
};

}  // namespace

void decode_slices_portable(const NextStreams& ahead, const Entry* arena, StreamSource& source) {
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
