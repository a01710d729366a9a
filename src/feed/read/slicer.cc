#include "feed/read/slicer.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace forebay::feed {

using base::Bytes;
using base::ByteVector;
using base::Code;
using base::fail;
using base::MutexLock;

namespace {

// Groups the runs into requests: one for each chunk, or several if it has very many runs.
std::vector<SliceRead> reads_of(std::span<const ChunkRun> runs, const ReadCost& cost) {
  std::vector<SliceRead> reads;
  for (size_t run = 0; run < runs.size(); ++run) {
    const bool joins = !reads.empty() && reads.back().runs < cost.ranges_max &&
                       runs[run - 1].chunk == runs[run].chunk;
    if (!joins) reads.push_back({.first_run = run});
    ++reads.back().runs;
    reads.back().bytes += runs[run].range.length;
  }
  return reads;
}

// Whether a sample can be read with others: its stored location is plausible. Otherwise reading it
// on its own reports what is wrong.
bool may_read(const store::ChunkInfo& chunk, const store::Location& location) {
  return location.length > 0 && location.length <= base::kImageBytesMax &&
         base::in_bounds(location.offset, location.length, chunk.offset + chunk.bytes);
}

uint64_t own_bytes(const Slice& slice) {
  uint64_t bytes = sizeof(Slice) + slice.reads.size() * sizeof(SliceRead) +
                   slice.runs.size() * (sizeof(ChunkRun) + sizeof(FileRange) + sizeof(uint8_t*)) +
                   slice.samples.size() * sizeof(SlicedSample);
  for (const SlicedSample& sample : slice.samples) {
    bytes += sample.places.size() * sizeof(SlicedSample::RunRange) +
             sample.segments.size() * sizeof(jpeg::SegmentRange);
  }
  return bytes + slice.parts.size() * sizeof(RunPiece);
}

}  // namespace

SlicedGroup::~SlicedGroup() {
  MutexLock lock(mutex_);
  for (const auto& [number, chunk] : chunks_) {
    if (chunk != nullptr) indexes_.keep_headers(number, *chunk);
  }
}

std::span<const uint32_t> SlicedGroup::permutation() {
  MutexLock lock(mutex_);
  if (!is_shuffled_) {
    permutation_ = plan_.order->permutation(plan_.order->groups()[group_]);
    is_shuffled_ = true;
  }
  return permutation_;
}

std::optional<std::shared_ptr<IndexedChunk>> SlicedGroup::chunk(uint32_t number) {
  MutexLock lock(mutex_);
  const auto found = chunks_.find(number);
  return found == chunks_.end() ? std::nullopt : std::optional(found->second);
}

void SlicedGroup::keep(uint32_t number, std::shared_ptr<IndexedChunk> chunk) {
  MutexLock lock(mutex_);
  chunks_[number] = std::move(chunk);
}

Slicer::Slicer(const store::Dataset& dataset, const FeedOptions& options, ChunkIndexes& indexes)
    : dataset_(dataset),
      options_(options),
      indexes_(indexes),
      may_read_regions_(options.regions == Regions::kAuto &&
                        (options.images == Images::kTensor || options.images == Images::kOwnSize) &&
                        !options.files && may_need_less(options.transform)) {}

Result<Slice> Slicer::slice(const EpochPlan& plan, const Load& load, SlicedGroup& group,
                            const io::ReadOptions& read) const {
  const auto permutation = group.permutation();
  const Group& of = plan.order->groups()[load.group];
  Slice out;
  out.samples.resize(load.uses);
  std::vector<Order::GroupSample> places;
  std::vector<uint32_t> chunks;
  for (uint64_t use = 0; use < load.uses; ++use) {
    const uint64_t at = load.first + use * load.stride;
    places.push_back(plan.order->place(of, permutation, at));
    chunks.push_back(plan.order->stretches(of)[places.back().stretch].chunk);
  }
  const ReadCost cost = cost_of(chunks);
  std::vector<WantedBytes> wanted;
  std::vector<WantedBytes> wanted_next;
  for (uint64_t use = 0; use < load.uses; ++use) {
    const uint64_t at = load.first + use * load.stride;
    const uint32_t chunk = chunks[use];
    SlicedSample& sample = out.samples[use];
    sample.sample = places[use].sample;
    ASSIGN_OR_RETURN(sample.chunk, index_of(plan, load, chunk, cost, group, read));
    RETURN_IF_ERROR(know_locations(chunk, read));
    const store::Location location = dataset_.location(sample.sample);
    out.sample_bytes += location.length;
    if (!may_read(dataset_.chunk(chunk), location)) continue;
    const auto of_sample = places_of(plan, load, at, location, cost, &sample);
    for (const FileRange& place : of_sample) {
      // If each range takes a request of its own, a sample is read as one range.
      const FileRange range = cost.ranges_max > 1 ? place : extent_of(of_sample);
      sample.places.push_back({.run = wanted.size(), .range = place});
      wanted.push_back({.of = {.chunk = location.chunk, .range = range}});
    }
    const auto map = map_of(chunk, sample.sample, read);
    if (map) {
      out.sample_bytes += map->length;
      sample.map_run = wanted.size();
      wanted.push_back({.of = {.chunk = location.chunk, .range = *map}});
    }
    if (!tells_when_needed(chunk, plan.epoch)) continue;
    if (map) wanted_next.push_back({.of = {.chunk = location.chunk, .range = *map}});
    for (const FileRange& range : needed_next(plan.epoch + 1, location, cost, sample)) {
      wanted_next.push_back({.of = {.chunk = location.chunk, .range = range}});
    }
  }
  out.runs = join_runs(wanted, cost.gap_bytes_max());
  if (!wanted_next.empty()) out.parts = cut_runs(out.runs, std::move(wanted_next));
  out.reads = reads_of(out.runs, cost);
  for (SlicedSample& sample : out.samples) {
    for (SlicedSample::RunRange& place : sample.places) place.run = wanted[place.run].run;
    if (sample.map_run) sample.map_run = wanted[*sample.map_run].run;
  }
  out.own_bytes = own_bytes(out);
  return out;
}

// Reads the locations of the samples, unless an index was read, which has them too.
Status Slicer::know_locations(uint32_t chunk, const io::ReadOptions& read) const {
  if (dataset_.knows_locations(chunk)) return {};
  return dataset_.load_locations({&chunk, 1}, read);
}

// What reading from these chunks costs. If they are on several servers, the slowest one counts.
ReadCost Slicer::cost_of(std::span<const uint32_t> chunks) const {
  ReadCost cost;
  io::Traffic slowest;
  const std::string* asked = nullptr;
  for (const uint32_t chunk : chunks) {
    const store::ChunkOrigin of = dataset_.origin(chunk);
    if (&of.path == std::exchange(asked, &of.path)) continue;
    cost.ranges_max = std::min(cost.ranges_max, of.origin.ranges_max(of.path));
    const io::Traffic traffic = of.origin.traffic(of.path);
    if (traffic.latency_s >= slowest.latency_s) slowest = traffic;
  }
  if (slowest.latency_s > 0) cost.latency_s = slowest.latency_s;
  if (slowest.bytes_per_s > 0) cost.bytes_per_s = slowest.bytes_per_s;
  return cost;
}

// The chunk's images of which parts can be read; null if its images are read as a whole.
Result<std::shared_ptr<IndexedChunk>> Slicer::index_of(const EpochPlan& plan, const Load& load,
                                                       uint32_t chunk, const ReadCost& cost,
                                                       SlicedGroup& group,
                                                       const io::ReadOptions& read) const {
  if (!may_read_regions_ || !dataset_.is_remote(chunk)) return std::shared_ptr<IndexedChunk>();
  if (auto looked_for = group.chunk(chunk)) return *looked_for;
  std::shared_ptr<IndexedChunk> found = indexes_.find(dataset_.chunk(chunk).id);
  if (found == nullptr && (indexes_.is_kept(chunk) || is_index_worth(plan, load, chunk, cost))) {
    ASSIGN_OR_RETURN(found, indexes_.get(chunk, read));
  }
  group.keep(chunk, found);
  return found;
}

// Whether this rank reads enough of the group's images in a chunk.
bool Slicer::is_index_worth(const EpochPlan& plan, const Load& load, uint32_t chunk,
                            const ReadCost& cost) const {
  uint64_t samples = 0;
  for (const Stretch& stretch : plan.order->stretches(plan.order->groups()[load.group])) {
    if (stretch.chunk == chunk) samples += stretch.count;
  }
  const store::ChunkInfo& info = dataset_.chunk(chunk);
  const uint64_t bytes = samples / load.stride * (info.bytes / info.samples);
  return cost.is_worth(info.index_bytes, bytes);
}

// The places of a sample's bytes: of its whole file, or of the pieces that its region needs, which
// are noted in the sample. `at` is its index in the load's group.
std::vector<FileRange> Slicer::places_of(const EpochPlan& plan, const Load& load, uint64_t at,
                                         const store::Location& location, const ReadCost& cost,
                                         SlicedSample* sample) const {
  std::vector<FileRange> whole{{location.offset, location.length}};
  if (sample->chunk == nullptr) return whole;
  const IndexedImage* image = sample->chunk->image(location.offset, location.length);
  if (image == nullptr) return whole;
  const Group& group = plan.order->groups()[load.group];
  const uint64_t position = (group.first_index + at) * plan.order->lanes() + group.lane;
  const uint64_t drawn_for = plan.order->drawn_for(position, sample->sample);
  base::Rect region;
  auto pieces = pieces_of(*sample->chunk, *image, sample->sample,
                          augmentation(options_.seed, plan.epoch, drawn_for), cost, &region);
  if (!pieces) return whole;
  sample->image = image;
  sample->region = region;
  sample->segments = std::move(pieces->segments);
  sample->has_header = pieces->has_header;
  return std::move(pieces->places);
}

// The pieces of the image for the region that is drawn from `random`; nothing if the whole file
// must be read.
std::optional<RegionPieces> Slicer::pieces_of(const IndexedChunk& chunk, const IndexedImage& image,
                                              uint64_t sample, const base::Random& random,
                                              const ReadCost& cost, base::Rect* region) const {
  const image::Size size{image.width, image.height};
  image::Annotations objects;
  if (options_.targets != nullptr) objects = options_.targets->objects(sample, size);
  const auto drawn = image::draw(options_.transform, size, random, {}, &objects);
  if (!drawn) return std::nullopt;  // preparing the sample reports why
  *region = decoded_region(options_.transform, *drawn, size);
  return plan_pieces(image, chunk.header(image), *region, cost);
}

// The bytes of a sample's map of labels, if they are wanted and lie in the image's chunk.
std::optional<FileRange> Slicer::map_of(uint32_t chunk, uint64_t sample,
                                        const io::ReadOptions& read) const {
  if (options_.targets == nullptr) return std::nullopt;
  const auto map = options_.targets->map_beside(dataset_, chunk, sample, read);
  if (!map || !may_read(options_.targets->maps->chunk(map->chunk), *map)) return std::nullopt;
  return FileRange{map->offset, map->length};
}

// Whether a cache keeps what is read of this chunk, and must be told when it is needed again.
bool Slicer::tells_when_needed(uint32_t chunk, uint64_t epoch) const {
  if (!may_read_regions_ || !options_.next_epoch || epoch == UINT32_MAX) return false;
  const store::ChunkOrigin of = dataset_.origin(chunk);
  return of.origin.keeps_copies(of.path);
}

// The places of the bytes that a sample of this slice needs in `epoch`, the next one, if the sample
// comes then and its augmentation is drawn for its own number.
std::vector<FileRange> Slicer::needed_next(uint64_t epoch, const store::Location& location,
                                           const ReadCost& cost, const SlicedSample& sample) const {
  std::vector<FileRange> whole{{location.offset, location.length}};
  if (sample.chunk == nullptr) return whole;
  const IndexedImage* image = sample.chunk->image(location.offset, location.length);
  if (image == nullptr) return whole;
  base::Rect region;
  auto pieces = pieces_of(*sample.chunk, *image, sample.sample,
                          augmentation(options_.seed, epoch, sample.sample), cost, &region);
  if (!pieces) return whole;
  if (cost.ranges_max == 1) return {extent_of(pieces->places)};
  // With several ranks, another rank, which does not know the header, may read the sample then.
  const bool is_header_known = sample.has_header && options_.world_size == 1;
  if (is_header_known) pieces->places.erase(pieces->places.begin());
  return std::move(pieces->places);
}

Result<ByteVector> compose(const SlicedSample& sample, std::span<const Bytes> parts) {
  const IndexedImage& image = *sample.image;
  const Bytes header = sample.has_header ? parts.front() : sample.chunk->header(image);
  if (sample.has_header) {
    // The header must say what the index led to expect.
    ASSIGN_OR_RETURN(const jpeg::Header parsed, jpeg::parse_header(header));
    if (!fits(parsed, image) ||
        jpeg::segments_for_region(parsed, sample.region) != sample.segments) {
      return fail(Code::kCorrupt, "its header differs from what its chunk's index says");
    }
    parts = parts.subspan(1);
  }
  ASSIGN_OR_RETURN(ByteVector file,
                   jpeg::compose_region(image.restart, header, sample.segments,
                                        std::vector<Bytes>(parts.begin(), parts.end())));
  if (sample.has_header) sample.chunk->keep_header(image, header);
  return file;
}

}  // namespace forebay::feed
