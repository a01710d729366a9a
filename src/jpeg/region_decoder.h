// Decodes one region of a sequential JPEG: from the entropy-coded data of its scan to the samples
// of its components. It knows what the region needs, where that lies and how far decoding has come.
// region_batch.h feeds several of these to the kernels at the same time.
#pragma once

#include "jpeg/kernels/entropy.h"
#include "jpeg/kernels/idct.h"
#include "jpeg/lookup_cache.h"
#include "jpeg/region_layout.h"
#include "jpeg/segment_splitter.h"

namespace forebay::jpeg {

// Samples and entropy-coded data lie in memory that belongs to the caller.
class RegionDecoder {
 public:
  // A range of MCUs that is decoded in order: a restart segment, the whole scan, or a piece of
  // either. It also holds the current position.
  struct McuRange {
    const uint8_t* data = nullptr;  // without stuffing
    uint64_t bits = 0;              // the end of the range, in bits
    uint64_t bit = 0;
    uint32_t next_mcu = 0;
    uint32_t end_mcu = 0;    // after the last needed MCU
    uint32_t whole_end = 0;  // after the last MCU of the restart segment
    std::array<int16_t, 3> dc{};

    bool done() const { return next_mcu == end_mcu; }
  };

  // The first of three steps: finds what `region` needs. Returns false under the same conditions as
  // RegionLayout::find().
  bool lay_out(const Scan& scan, Bytes file, const base::Rect& region);
  LookupCache::Found find_tables(const Scan& scan, LookupCache& cache, bool may_build);
  // The last step: removes the stuffing from the needed segments. `kernel` is the best instruction
  // set that may be used. `bytes` points to bytes_needed() bytes at the beginning of a cache line,
  // which stay in use until the next image.
  bool find_segments(Bytes file, EntropyKernel kernel, uint8_t* bytes);
  // From now on take() keeps coefficients instead of making samples: in zigzag order, with summed
  // DC, block by block in the order of the scan. `to` has room for 64 coefficients for each block
  // of the image.
  void keep_coefficients(int16_t* to) { kept_ = to; }
  // The number of blocks of the whole image.
  size_t block_count() const { return size_t{layout_.mcus} * layout_.blocks; }
  // Splits long ranges into pieces that can be decoded side by side, because a single stream is
  // bound by latency.
  void split_long_ranges(const LookupArena& arena, SegmentSplitter& splitter);
  size_t bytes_needed() const {
    return (layout_.samples_bytes + bits_bytes_ + kCacheLine - 1) / kCacheLine * kCacheLine;
  }

  // The number of bits in the needed segments, or slightly more.
  uint64_t bits() const { return bits_bytes_ * 8; }
  std::vector<McuRange>& ranges() { return ranges_; }
  const StreamTables& tables() const { return tables_; }
  // Prepares `stream` for the first slice of a range; its coefficients go to `out`. Writes in
  // place, because copying a Stream would wait for all earlier stores.
  void begin_range(const McuRange& range, int16_t* out, Stream* stream) const;
  // The number of blocks in the next slice of the range.
  uint32_t next_blocks(const McuRange& range) const;
  // Makes samples from a decoded slice and zeroes its coefficients. Returns false when the data is
  // damaged; the coefficients may then be left non-zero.
  bool take(McuRange& range, const Stream& stream);

  const Plane& plane(size_t component) const { return layout_.planes[component]; }

 private:
  void sum_dc(McuRange& range, const Stream& stream);
  void make_samples(uint32_t first, uint32_t end, int16_t* coefficients);
  void transform_run(uint32_t row, uint32_t column, uint32_t count, int16_t* coefficients);

  RegionLayout layout_;
  uint32_t slice_mcus_ = 0;  // the most MCUs of a slice
  StreamTables tables_;
  std::array<Dequantiser, 3> dequantisers_;
  int16_t* kept_ = nullptr;
  size_t header_bytes_ = 0;
  size_t bits_bytes_ = 0;
  std::vector<NeededSegment> needed_;
  std::vector<McuRange> ranges_;
  std::vector<McuRange> split_;
};

}  // namespace forebay::jpeg
