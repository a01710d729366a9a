// Which bytes of files a reader asks for when it needs only a region of each: plain logic without
// files and threads.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "feed/read/chunk_indexes.h"
#include "feed/read/plan.h"
#include "feed/read/read_cost.h"
#include "image/prepare.h"

namespace forebay::feed {

// Pieces of one image file.
struct RegionPieces {
  std::vector<jpeg::SegmentRange> segments;
  // Where the pieces lie in the chunk's file, in ascending order: the header if it is not known
  // yet, then one place for each range of segments.
  std::vector<FileRange> places;
  bool has_header = false;  // whether the first place is the header's
};

// What an image's header, which is not known yet, must say about the geometry, from the index
// alone; empty if that cannot be known. The tables and header_bytes are not filled in.
std::optional<jpeg::Header> expected_header(const IndexedImage& image);
// Whether a header says the same about the image's geometry as the index does.
bool fits(const jpeg::Header& header, const IndexedImage& image);

// Whether a transform may need less than a whole image. It does not if it resizes the image first,
// because then each pixel counts, or if images are oriented, because indexes do not tell the
// orientation.
bool may_need_less(const image::Transform& transform);

// The region of an image that must be decoded for a draw: larger than the drawn region if the image
// is made smaller while it is decoded.
base::Rect decoded_region(const image::Transform& transform, const image::Draw& drawn,
                          image::Size size);

// Plans reading a region of an image. `header` is its header, empty if that is not known. Returns
// nothing if the whole file must be read: the region needs nearly all of it, parts cannot be read,
// or the header was kept with another index than the image has now.
std::optional<RegionPieces> plan_pieces(const IndexedImage& image, base::Bytes header,
                                        const base::Rect& region, const ReadCost& cost);

// The bytes from the first of some ascending places to the last; there is at least one.
FileRange extent_of(std::span<const FileRange> places);

// A run of bytes in a chunk's file that is read in one go.
struct ChunkRun {
  uint32_t chunk = 0;
  FileRange range;
};

// Bytes that are wanted of a chunk's file.
struct WantedBytes {
  ChunkRun of;
  size_t run = 0;  // set by join_runs(): the run that contains them
};
// Joins what is wanted to runs, which ascend by chunk and offset and do not overlap; gaps of at
// most `gap_bytes_max` between two pieces belong to the runs. What is wanted may be in any order
// and overlap.
std::vector<ChunkRun> join_runs(std::vector<WantedBytes>& wanted, uint64_t gap_bytes_max);

}  // namespace forebay::feed
