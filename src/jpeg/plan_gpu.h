// Plans the decoding of JPEGs by a GPU: the regions, and the bytes of the restart segments that
// these regions need. The structures for the kernels are in kernels/region_gpu.h. Runs on the host.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "jpeg/kernels/region_gpu.h"
#include "jpeg/region_layout.h"

namespace forebay::jpeg::gpu {

// A JPEG that lies in a GPU's memory, with the information that the host needs to find its segments
// there.
struct ResidentJpeg {
  struct SegmentExtent {
    uint64_t begin;  // bytes
    uint32_t bytes;  // without stuffing
  };
  base::ByteVector head;  // the file without the entropy-coded data of its scan
  Header header;
  size_t scan_bytes = 0;  // bytes of the file after its header
  std::vector<SegmentExtent> segments;
  uint64_t bits_bytes = 0;
  const uint8_t* bits = nullptr;  // the address of the data, a multiple of 4 bytes
};

// The table in the form that the kernels look symbols up in.
HuffmanLookup make_lookup(const HuffmanTable& table);

// Keeps its buffers between batches. Used by one thread at a time.
class Plan {
 public:
  // With kDecode, needed segments are decoded to their ends, so that all damage in them is found.
  explicit Plan(Damaged damaged = Damaged::kRefuse)
      : whole_segments_(damaged == Damaged::kDecode) {}

  // The sizes of what a GPU's memory holds for a batch.
  struct Sizes {
    uint64_t bits_bytes = 0;
    uint64_t coefficients = 0;
    uint64_t planes_bytes = 0;
    uint64_t pixels_bytes = 0;
  };

  // Forgets all regions.
  void begin();
  // Prepares a region of a file for add(). Returns the number of bytes that add() may write at
  // most, or 0 when the host should decode the image: libjpeg-turbo handles its kind, it is
  // malformed, or its segments are so long that one thread of a GPU would still work when all
  // others have finished.
  size_t lay_out(Bytes file, const Header& header, const base::Rect& region);
  // Does the same for a JPEG in the GPU's memory. Returns false where the function above returns 0.
  bool lay_out(const ResidentJpeg& stored, const base::Rect& region);
  // Adds the region of the last call to lay_out(). `to` points to the position `sizes().bits_bytes`
  // in the memory for entropy-coded data, with room for as many bytes as lay_out() returned.
  // Returns false, and adds nothing, when the image is malformed.
  bool add(Bytes file, uint8_t* to);
  // Adds the region of the last call to lay_out() for the same stored JPEG.
  void add(const ResidentJpeg& stored);
  // The sizes after adding the region of the last call to lay_out().
  Sizes sizes_with_next() const;

  // Appends the entropy-coded data of a file to `bits`, at a multiple of 4 bytes, and describes
  // where its segments lie. Returns nothing when lay_out() for the whole image returns 0, or when
  // the image is malformed.
  std::optional<ResidentJpeg> store(Bytes file, const Header& header, base::ByteVector* bits);
  // Returns the file without anything that follows its last marker. `bits` is its entropy-coded
  // data.
  static base::ByteVector restore(const ResidentJpeg& stored, Bytes bits);

  const Sizes& sizes() const { return sizes_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<HuffmanLookup>& lookups() const { return lookups_; }
  // The segments, longest first (approximately), so that neighbouring threads of a GPU have about
  // equal work.
  const std::vector<SegmentTask>& sorted_segments();
  size_t segments() const { return segments_.size(); }

 private:
  bool lay_out(Bytes file, const Header& header, size_t scan_bytes, const base::Rect& region);
  void add_region();
  void add_segment(const NeededSegment& needed, uint64_t words, uint64_t byte, uint64_t bytes);
  uint32_t lookup_of(Bytes table, bool ac);
  bool may_use_tables() const;

  const bool whole_segments_;
  const EntropyKernel kernel_ = best_entropy_kernel();
  Scan scan_;  // the scan of the last image that lay_out() took
  base::Rect region_;
  RegionLayout layout_;
  std::vector<NeededSegment> needed_;
  Sizes sizes_;
  std::vector<Region> regions_;
  std::vector<SegmentTask> segments_;
  std::vector<SegmentTask> sorted_;
  std::vector<HuffmanLookup> lookups_;
  std::unordered_map<std::string, uint32_t> lookup_numbers_;  // keyed by the bytes of the table
};

}  // namespace forebay::jpeg::gpu
