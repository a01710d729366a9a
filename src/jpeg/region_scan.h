// A region of a sequential JPEG on its way from the bits of its scan to the samples of its
// components: what is needed of it, where that lies, and how far it is.
#pragma once

#include "jpeg/entropy.h"
#include "jpeg/idct.h"
#include "jpeg/lookup_cache.h"
#include "jpeg/region_layout.h"
#include "jpeg/segment_splitter.h"

namespace forebay::jpeg {

// Samples and bits lie in memory of the caller's.
class RegionScan {
 public:
  // A restart segment, the whole scan, or a part of either.
  struct Segment {
    const uint8_t* data = nullptr;  // without stuffing
    uint64_t bits = 0;              // behind its last one
    uint64_t bit = 0;
    uint32_t next_mcu = 0;
    uint32_t end_mcu = 0;    // behind the last one that is needed
    uint32_t whole_end = 0;  // behind the restart segment's last one
    std::array<int16_t, 3> dc{};

    bool done() const { return next_mcu == end_mcu; }
  };

  // Finds what `region` needs, in four steps. False as RegionLayout::find().
  bool lay_out(const Scan& scan, Bytes file, const base::Rect& region);
  LookupCache::Found find_tables(const Scan& scan, LookupCache& cache, bool may_build);
  // `kernel`: the best that may be used. `bytes`: bytes_needed() of them from the beginning of
  // a cache line on, in use until the next image.
  bool find_segments(Bytes file, EntropyKernel kernel, uint8_t* bytes);
  // From here on take() keeps coefficients instead of samples: in zigzag order, DC summed, block by
  // block as they come. `to`: 64 for each block of the image.
  void keep_coefficients(int16_t* to) { kept_ = to; }
  // Of the image.
  size_t block_count() const { return size_t{layout_.mcus} * layout_.blocks; }
  // Long ones are of no use: one stream alone is bound by latency.
  void split_long_segments(const LookupArena& arena, SegmentSplitter& splitter);
  size_t bytes_needed() const {
    return (layout_.samples_bytes + bits_bytes_ + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

  uint64_t bits() const { return bits_bytes_ * 8; }  // of its segments, or a few more
  std::vector<Segment>& segments() { return segments_; }
  const StreamTables& tables() const { return tables_; }
  // For the first slice of a segment, whose coefficients go to `out`. In place: a copy would wait
  // for all stores before it.
  void begin_segment(const Segment& segment, int16_t* out, Stream* stream) const;
  // Of the slice behind those that were taken.
  uint32_t next_blocks(const Segment& segment) const;
  // Makes samples of a decoded slice, and zeros of its coefficients. False as above; the
  // coefficients may then not all be zero.
  bool take(Segment& segment, const Stream& stream);

  const Plane& plane(size_t component) const { return layout_.planes[component]; }

 private:
  void sum_dc(Segment& segment, const Stream& stream);
  void make_samples(uint32_t first, uint32_t end, int16_t* coefficients);
  void transform_run(uint32_t row, uint32_t column, uint32_t count, int16_t* coefficients);

  RegionLayout layout_;
  uint32_t slice_mcus_ = 0;  // of a slice, at most
  StreamTables tables_;
  std::array<Dequantiser, 3> dequantisers_;
  int16_t* kept_ = nullptr;
  size_t header_bytes_ = 0;
  size_t bits_bytes_ = 0;
  std::vector<NeededSegment> needed_;
  std::vector<Segment> segments_;
  std::vector<Segment> parts_;
};

}  // namespace forebay::jpeg
