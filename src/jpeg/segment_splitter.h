// Splits a long restart segment, or a scan without restart markers, into parts that can be decoded
// side by side.
//
// Where a block begins is known only behind the blocks before it. But decoding that begins at any
// bit soon falls into step with the true course: in photographs after 900 bits on average. So the
// segment is cut anywhere into parts, and each goes on until it stands where the one ahead has
// stood too, at an MCU's first bit; from there on, the other's course is the true one. S. T. Klein,
// Y. Wiseman: Parallel Huffman Decoding with Applications to JPEG Files, 2003.
#pragma once

#include <optional>
#include <vector>

#include "jpeg/entropy.h"

namespace forebay::jpeg {

// Keeps its buffers between segments. One thread at a time.
class SegmentSplitter : private StreamSource {
 public:
  explicit SegmentSplitter(std::optional<EntropyKernel> kernel) : kernel_(kernel) {}

  struct Segment {
    const uint8_t* data = nullptr;  // as a Stream's
    uint64_t bits = 0;
    uint32_t mcus = 0;
    uint32_t needed = 0;  // MCUs, from the first one on
    const StreamTables* tables = nullptr;
    std::span<const uint8_t> component_of;  // each block of an MCU
    uint32_t slice_mcus = 1;                // as many as `tables` allow
  };
  // Where an MCU begins.
  struct Point {
    uint64_t bit = 0;
    uint32_t mcu = 0;
    std::array<int16_t, 3> dc{};  // of each component's last block before it
  };
  // Points in the needed part, the first at its beginning, `slice_mcus` or a few more MCUs apart.
  // Damage ends them: decoding from the last one on meets it. They are good until the next call.
  std::span<const Point> split(const LookupArena& arena, const Segment& segment);

 private:
  enum class End : uint8_t {
    kGoing,
    kMet,      // a point of the part ahead
    kBehind,   // all that this round is for
    kDamaged,  // or never in step, or behind the last MCU
    kTired,    // far behind its own bits without meeting anyone
  };
  struct Part {
    std::vector<Point> points;  // counted from where it began
    End end = End::kGoing;
    bool was_met = false;
    uint32_t retries = 0;  // after damage
    size_t ahead = 0;      // the part that it may meet next; 0: none
    uint32_t looks = 0;    // for points of `ahead`
    size_t met_at = 0;     // kMet: the point of `ahead`
  };

  void run_round(const LookupArena& arena);
  void decode_parts(const LookupArena& arena, size_t first, size_t end);
  void follow_course(const LookupArena& arena);
  Stream* next(Stream* done) override;
  std::optional<size_t> next_part();
  std::optional<size_t> cut_longest();
  void begin(size_t part, uint64_t bit, size_t ahead);
  void begin_slice(size_t slot);
  void take(size_t part, const Stream& done);
  void look_ahead(Part& part);
  void end_damaged(size_t part, uint64_t bit);
  uint64_t begin_of(size_t ahead) const;
  void add(const Point& point);

  const KernelChoice kernel_;
  Segment segment_;
  std::vector<Point> found_;
  Point course_;  // as far as the true course is known
  // Of a round.
  uint64_t round_end_ = 0;
  uint64_t tired_after_ = 0;  // bits
  uint64_t slice_bits_ = 0;   // about
  uint32_t mcus_left_ = 0;    // from its beginning on
  std::vector<Part> parts_;   // the first begins where the course is
  size_t part_count_ = 0;
  bool may_cut_ = true;
  size_t to_begin_ = 0;  // parts [to_begin_, begin_end_) have no stream yet
  size_t begin_end_ = 0;
  // What is decoded now.
  std::array<Stream, kStreamsMax> streams_;
  std::array<size_t, kStreamsMax> part_of_;  // each stream
  size_t started_ = 0;
  std::vector<int16_t> coefficients_;  // of streams_, for kernels that need the room
};

}  // namespace forebay::jpeg
