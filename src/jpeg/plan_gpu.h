// From JPEGs to what a GPU's kernels are told of them: their regions, and the bytes of the restart
// segments that these need, no others.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "jpeg/region_gpu.h"
#include "jpeg/region_layout.h"

namespace forebay::jpeg::gpu {

// Keeps its buffers between batches. One thread at a time.
class Plan {
 public:
  // What a GPU's memory holds of a batch.
  struct Sizes {
    uint64_t bits_bytes = 0;
    uint64_t coefficients = 0;
    uint64_t planes_bytes = 0;
    uint64_t pixels_bytes = 0;
  };

  // Forgets all regions.
  void begin();
  // Bytes that add() may write of the file, at most; 0 where the image is better left to the host:
  // of a kind that libjpeg-turbo decodes there, not quite in order, or its segments so long that
  // one thread of a GPU would be at work when all others have ended.
  size_t lay_out(Bytes file, const Header& header, const base::Rect& region);
  // The image that lay_out() was asked about, last. `to`: where `sizes().bits_bytes` ends in the
  // memory of the bits, room of that many bytes. False, and nothing is added, where it is not quite
  // in order.
  bool add(Bytes file, uint8_t* to);
  // With it.
  Sizes sizes_with_next() const;

  const Sizes& sizes() const { return sizes_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<HuffmanLookup>& lookups() const { return lookups_; }
  // The longest first, about, so that threads of a GPU beside each other have as much to do.
  std::vector<Segment>& sorted_segments();

 private:
  uint32_t lookup_of(Bytes table, bool ac);
  bool may_use_tables() const;

  Scan scan_;  // of the image that is added
  base::Rect region_;
  RegionLayout layout_;
  std::vector<NeededSegment> needed_;
  Sizes sizes_;
  std::vector<Region> regions_;
  std::vector<Segment> segments_;
  std::vector<Segment> sorted_;
  std::vector<HuffmanLookup> lookups_;
  std::unordered_map<std::string, uint32_t> lookup_numbers_;  // by the table's bytes
};

}  // namespace forebay::jpeg::gpu
