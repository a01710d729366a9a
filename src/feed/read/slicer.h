// Plans how a slice is read: which bytes its samples need of which chunks. It may have to read
// indexes for this, so it has threads of its own (feed/read/reading.h).
#pragma once

#include <map>
#include <optional>

#include "feed/batch/options.h"
#include "feed/read/chunk_indexes.h"
#include "feed/read/needed_next.h"
#include "feed/read/plan.h"
#include "feed/read/region_plan.h"

namespace forebay::feed {

// A sample of a slice, and where its bytes are among the slice's runs.
struct SlicedSample {
  struct RunRange {
    size_t run = 0;   // in Slice::runs
    FileRange range;  // in the chunk's file
  };

  uint64_t sample = 0;                 // in the dataset
  std::vector<RunRange> places;        // empty: the sample is read on its own
  std::optional<size_t> map_run = {};  // the run that has the sample's map of labels, if one has
  // If only a region is read: the image, and its region; the places are those of RegionPieces.
  const IndexedImage* image = nullptr;
  base::Rect region;
  std::vector<jpeg::SegmentRange> segments;
  bool has_header = false;
  std::shared_ptr<IndexedChunk> chunk;  // keeps `image`
};

// A request for several runs of one chunk.
struct SliceRead {
  size_t first_run = 0;
  size_t runs = 0;
  uint64_t bytes = 0;
};

struct Slice {
  std::vector<SlicedSample> samples;  // one for each use of the load
  std::vector<ChunkRun> runs;         // ascending by chunk and offset
  std::vector<SliceRead> reads;
  // The runs, cut where the bytes that the next epoch needs begin and end; empty if no cache needs
  // to know, or all bytes are needed.
  std::vector<RunPiece> parts;
  uint64_t sample_bytes = 0;  // bytes of the samples' whole files
  // Memory that the slice and the StretchBytes of its runs take, without the bytes that are read.
  uint64_t own_bytes = 0;
};

// What the slices of a group share while any of them is in memory. Any thread may use it.
class SlicedGroup {
 public:
  // The constructor's arguments must outlive the object.
  SlicedGroup(const EpochPlan& plan, size_t group, const ChunkIndexes& indexes)
      : plan_(plan), group_(group), indexes_(indexes) {}
  // Keeps the headers that were read for the group.
  ~SlicedGroup();
  SlicedGroup(const SlicedGroup&) = delete;
  SlicedGroup& operator=(const SlicedGroup&) = delete;
  // Order::permutation() of the group; the first call shuffles.
  std::span<const uint32_t> permutation() EXCLUDES(mutex_);
  // The images of a chunk, which may be null; empty if nobody has looked for them yet.
  std::optional<std::shared_ptr<IndexedChunk>> chunk(uint32_t number) EXCLUDES(mutex_);
  void keep(uint32_t number, std::shared_ptr<IndexedChunk> chunk) EXCLUDES(mutex_);

 private:
  const EpochPlan& plan_;
  const size_t group_;
  const ChunkIndexes& indexes_;
  base::Mutex mutex_;
  bool is_shuffled_ GUARDED_BY(mutex_) = false;
  std::vector<uint32_t> permutation_ GUARDED_BY(mutex_);  // set once
  std::map<uint32_t, std::shared_ptr<IndexedChunk>> chunks_ GUARDED_BY(mutex_);
};

// Any thread may call anything.
class Slicer {
 public:
  // The constructor's arguments must outlive the object.
  Slicer(const store::Dataset& dataset, const FeedOptions& options, ChunkIndexes& indexes);

  // What the slices of a group share; the plan must outlive it.
  std::shared_ptr<SlicedGroup> share(const EpochPlan& plan, size_t group) const {
    return std::make_shared<SlicedGroup>(plan, group, indexes_);
  }
  // Plans a slice's reads. Waits while it reads indexes or, if a chunk has none, the locations of
  // its samples. `read` limits these reads. Errors: read errors. Throws std::bad_alloc.
  Result<Slice> slice(const EpochPlan& plan, const Load& load, SlicedGroup& group,
                      const io::ReadOptions& read) const;

 private:
  ReadCost cost_of(std::span<const uint32_t> chunks) const;
  Result<std::shared_ptr<IndexedChunk>> index_of(const EpochPlan& plan, const Load& load,
                                                 uint32_t chunk, const ReadCost& cost,
                                                 SlicedGroup& group,
                                                 const io::ReadOptions& read) const;
  Status know_locations(uint32_t chunk, const io::ReadOptions& read) const;
  bool is_index_worth(const EpochPlan& plan, const Load& load, uint32_t chunk,
                      const ReadCost& cost) const;
  std::vector<FileRange> places_of(const EpochPlan& plan, const Load& load, uint64_t at,
                                   const store::Location& location, const ReadCost& cost,
                                   SlicedSample* sample) const;
  std::optional<RegionPieces> pieces_of(const IndexedChunk& chunk, const IndexedImage& image,
                                        uint64_t sample, const base::Random& random,
                                        const ReadCost& cost, base::Rect* region) const;
  std::optional<FileRange> map_of(uint32_t chunk, uint64_t sample,
                                  const io::ReadOptions& read) const;
  bool tells_when_needed(uint32_t chunk, uint64_t epoch) const;
  std::vector<FileRange> needed_next(uint64_t epoch, const store::Location& location,
                                     const ReadCost& cost, const SlicedSample& sample) const;

  const store::Dataset& dataset_;
  const FeedOptions& options_;
  ChunkIndexes& indexes_;
  const bool may_read_regions_;
};

// Makes a JPEG with the sample's region, and grey elsewhere, from `parts`, the bytes at its places.
// Keeps the header if it was read. Errors: kCorrupt if the bytes are damaged or not what the index
// says.
Result<base::ByteVector> compose(const SlicedSample& sample, std::span<const base::Bytes> parts);

}  // namespace forebay::feed
