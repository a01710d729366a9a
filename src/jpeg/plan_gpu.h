// From JPEGs to what a GPU's kernels are told of them: their regions, and the bytes of the restart
// segments that these need, no others.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "jpeg/region_gpu.h"
#include "jpeg/region_layout.h"

namespace forebay::jpeg::gpu {

// A JPEG that lies in a GPU's memory, and what the host must know to find its segments there.
struct Stored {
  struct Segment {
    uint64_t begin;  // bytes
    uint32_t bytes;  // without stuffing
  };
  base::ByteVector head;  // the file, but for its scan's bits
  Header header;
  size_t scan_bytes = 0;  // of the file, behind its header
  std::vector<Segment> segments;
  uint64_t bits_bytes = 0;
  const uint8_t* bits = nullptr;  // where they lie, at a multiple of 4 bytes
};

// Keeps its buffers between batches. One thread at a time.
class Plan {
 public:
  // kDecode: needed segments are decoded to their ends, so that all damage in them is found.
  explicit Plan(Damaged damaged = Damaged::kRefuse)
      : whole_segments_(damaged == Damaged::kDecode) {}

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
  // The same of one that lies in the GPU's memory; false where lay_out() above would give 0.
  bool lay_out(const Stored& stored, const base::Rect& region);
  // The image that lay_out() was asked about, last. `to`: where `sizes().bits_bytes` ends in the
  // memory of the bits, room of that many bytes. False, and nothing is added, where it is not quite
  // in order.
  bool add(Bytes file, uint8_t* to);
  // As it is stored; as lay_out() before it.
  void add(const Stored& stored);
  // With it.
  Sizes sizes_with_next() const;

  // Adds a file's bits to `bits`, from a multiple of 4 bytes on, and says what of them is where.
  // Nothing where lay_out() of the whole image gives 0, or it is not quite in order.
  std::optional<Stored> store(Bytes file, const Header& header, base::ByteVector* bits);
  // The file again, but for what lies behind its last marker; `bits`: those of it.
  static base::ByteVector restore(const Stored& stored, Bytes bits);

  const Sizes& sizes() const { return sizes_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<HuffmanLookup>& lookups() const { return lookups_; }
  // The longest first, about, so that threads of a GPU beside each other have as much to do.
  const std::vector<Segment>& sorted_segments();
  size_t segments() const { return segments_.size(); }

 private:
  bool lay_out(Bytes file, const Header& header, size_t scan_bytes, const base::Rect& region);
  void add_region();
  void add_segment(const NeededSegment& needed, uint64_t words, uint64_t byte, uint64_t bytes);
  uint32_t lookup_of(Bytes table, bool ac);
  bool may_use_tables() const;

  const bool whole_segments_;
  const EntropyKernel kernel_ = best_entropy_kernel();
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
