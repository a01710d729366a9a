// Splits a long restart segment, or a scan without restart markers, into pieces that can be decoded
// side by side.
//
// The beginning of a block is known only after decoding the blocks before it. But decoding that
// begins at any bit soon falls into step with the true sequence of blocks: in photographs after 900
// bits on average. So several walks begin at different bits of the segment. Each goes on until it
// stands at the first bit of an MCU where the next walk has stood too; from there on, the next walk
// is on the true course. (S. T. Klein, Y. Wiseman: Parallel Huffman Decoding with Applications to
// JPEG Files, 2003.)
#pragma once

#include <optional>
#include <vector>

#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

// Keeps its buffers between segments. Used by one thread at a time.
class SegmentSplitter : private StreamSource {
 public:
  explicit SegmentSplitter(std::optional<EntropyKernel> kernel) : kernel_(kernel) {}

  // A segment to split.
  struct Input {
    const uint8_t* data = nullptr;  // without stuffing, like in Stream
    uint64_t bits = 0;
    uint32_t mcus = 0;
    uint32_t needed = 0;  // how many MCUs from the first one on are needed
    const StreamTables* tables = nullptr;
    std::span<const uint8_t> component_of;  // the component of each block of an MCU
    uint32_t slice_mcus = 1;                // MCUs in a slice; as many as `tables` allow
  };
  // The beginning of an MCU.
  struct Point {
    uint64_t bit = 0;
    uint32_t mcu = 0;
    std::array<int16_t, 3> dc{};  // DC of the last block before it, by component
  };
  // Returns points in the needed part of the segment: the first at its beginning, the others
  // `slice_mcus` or slightly more MCUs apart. Where data is damaged the points end, so that
  // decoding from the last point meets the damage. The points stay valid until the next call.
  std::span<const Point> split(const LookupArena& arena, const Input& segment);

 private:
  enum class End : uint8_t {
    kGoing,
    kMet,       // reached a point of the walk ahead
    kRoundEnd,  // reached the end of the round
    kDamaged,   // damaged data, never in step, or past the last MCU
    kTired,     // far past its own bits without meeting a walk
  };
  struct Walk {
    std::vector<Point> points;  // MCUs count from where the walk began
    End end = End::kGoing;
    bool was_met = false;
    uint32_t retries = 0;  // restarts after damage
    size_t ahead = 0;      // the walk that it may meet next; 0: none
    uint32_t looks = 0;    // how often this walk looked for points of `ahead`
    size_t met_at = 0;     // for kMet: the point of `ahead`
  };

  void run_round(const LookupArena& arena);
  void decode_walks(const LookupArena& arena, size_t first, size_t end);
  void follow_course(const LookupArena& arena);
  Stream* next(Stream* done) override;
  std::optional<size_t> next_walk();
  std::optional<size_t> cut_longest();
  void begin(size_t walk, uint64_t bit, size_t ahead);
  void begin_slice(size_t slot);
  void take(size_t walk, const Stream& done);
  void look_ahead(Walk& walk);
  void end_damaged(size_t walk, uint64_t bit);
  uint64_t begin_of(size_t ahead) const;
  void add(const Point& point);

  const KernelSelection kernel_;
  Input input_;
  std::vector<Point> found_;
  Point course_;  // the end of the known true course
  // The state of a round.
  uint64_t round_end_ = 0;
  uint64_t tired_after_ = 0;  // bits
  uint64_t slice_bits_ = 0;   // approximate bits of a slice
  uint32_t mcus_left_ = 0;    // MCUs from the beginning of the round on
  std::vector<Walk> walks_;   // the first walk begins at course_
  size_t walk_count_ = 0;
  bool may_cut_ = true;
  size_t to_begin_ = 0;  // walks [to_begin_, begin_end_) have no stream yet
  size_t begin_end_ = 0;
  // The streams that are being decoded.
  std::array<Stream, kStreamSlots> streams_;
  std::array<size_t, kStreamSlots> walk_of_;  // the walk of each stream
  size_t started_ = 0;
  std::vector<int16_t> coefficients_;  // coefficients of streams_, if the kernel writes them
};

}  // namespace forebay::jpeg
