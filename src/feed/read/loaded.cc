#include "feed/read/loaded.h"

#include <algorithm>

namespace forebay::feed {

namespace {

// The largest read, so that several threads can read the first chunk and a stop does not wait long.
// Reads end at multiples of this in the file, so that they are whole blocks for reads around the
// page cache.
constexpr uint64_t kPieceBytes = 8u << 20;
constexpr uint64_t kCacheLine = 64;  // bytes

// In memory the image data begins at the same place in a block as in the file
// (io::OpenOptions::cached).
uint64_t place_in_block(const FileRange& range) { return range.offset % io::kDirectAlignment; }

const Group& group_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order->groups()[epoch.plan->loads[load].group];
}

std::span<const Stretch> stretches_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order->stretches(group_of(epoch, load));
}

// The pieces in which stretches are read.
std::deque<PieceRead> reads_of_stretches(const LoadId& id,
                                         const std::vector<StretchBytes>& stretches) {
  std::deque<PieceRead> reads;
  for (size_t number = 0; number < stretches.size(); ++number) {
    const FileRange& range = stretches[number].range;
    const uint64_t end = range.offset + range.length;
    for (uint64_t at = range.offset; at < end;) {
      const uint64_t next = std::min(end, (at / kPieceBytes + 1) * kPieceBytes);
      reads.push_back({.load = id, .stretch = number, .offset = at, .bytes = next - at});
      at = next;
    }
  }
  return reads;
}

// The reads of a slice.
std::deque<PieceRead> reads_of_slice(const LoadId& id, const Slice& slice) {
  std::deque<PieceRead> reads;
  for (const SliceRead& read : slice.reads) {
    reads.push_back({.load = id,
                     .stretch = read.first_run,
                     .stretches = read.runs,
                     .offset = slice.runs[read.first_run].range.offset,
                     .bytes = read.bytes});
  }
  return reads;
}

// The ranges of a slice's read, if it is known which bytes are needed again.
std::vector<io::Range> ranges_of_parts(const LoadedGroup& group, const PieceRead& read) {
  std::vector<io::Range> ranges;
  const auto& parts = group.slice->parts;
  auto part = std::ranges::lower_bound(parts, read.stretch, {}, &RunPiece::run);
  for (; part != parts.end() && part->run < read.stretch + read.stretches; ++part) {
    const StretchBytes& run = group.stretches[part->run];
    ranges.push_back(
        {.offset = part->range.offset,
         .out = {run.data + (part->range.offset - run.range.offset), part->range.length},
         .again = part->again});
  }
  return ranges;
}

}  // namespace

EpochData::EpochData(std::shared_ptr<const EpochPlan> epoch_plan)
    : plan(std::move(epoch_plan)), loads(plan->loads.size()) {
  for (size_t i = 0; i < loads.size(); ++i) loads[i].uses_left = plan->loads[i].uses;
}

std::vector<uint32_t> permutation_of(const EpochData& epoch, size_t load) {
  return epoch.plan->order->permutation(group_of(epoch, load));
}

void make_room(const store::Dataset& dataset, store::Caching caching, SpareBuffers& spare,
               EpochData& epoch, size_t load) {
  LoadedGroup& group = epoch.loads[load];
  const bool is_direct = caching == store::Caching::kUncached && group.slice == nullptr;
  const uint64_t alignment = is_direct ? io::kDirectAlignment : kCacheLine;
  std::vector<uint64_t> places;
  uint64_t end = 0;
  const auto add = [&](const FileRange& range) {
    group.stretches.push_back({.range = range});
    const uint64_t place = base::round_up(end, alignment) + (is_direct ? place_in_block(range) : 0);
    places.push_back(place);
    end = place + range.length;
  };
  if (group.slice != nullptr) {
    for (const ChunkRun& run : group.slice->runs) add(run.range);
  } else {
    for (const Stretch& stretch : stretches_of(epoch, load)) add(range_of(dataset, stretch));
  }
  group.memory = spare.take(end);
  for (size_t i = 0; i < places.size(); ++i) {
    StretchBytes& bytes = group.stretches[i];
    if (bytes.range.length > 0) bytes.data = group.memory.data() + places[i];
  }
}

std::deque<PieceRead> reads_of(const EpochData& epoch, const LoadId& id) {
  const LoadedGroup& group = epoch.loads[id.number];
  return group.slice != nullptr ? reads_of_slice(id, *group.slice)
                                : reads_of_stretches(id, group.stretches);
}

std::vector<io::Range> ranges_of(const LoadedGroup& group, const PieceRead& read) {
  const auto stretches = std::span(group.stretches).subspan(read.stretch, read.stretches);
  if (group.slice != nullptr && !group.slice->parts.empty()) return ranges_of_parts(group, read);
  if (read.stretches == 1) {
    const StretchBytes& bytes = stretches.front();
    return {{.offset = read.offset,
             .out = {bytes.data + (read.offset - bytes.range.offset), read.bytes}}};
  }
  std::vector<io::Range> ranges;
  ranges.reserve(stretches.size());
  for (const StretchBytes& bytes : stretches) {
    ranges.push_back({.offset = bytes.range.offset, .out = {bytes.data, bytes.range.length}});
  }
  return ranges;
}

FileRange extent_of(const LoadedGroup& group, const PieceRead& read) {
  const FileRange& first = group.stretches[read.stretch].range;
  const FileRange& last = group.stretches[read.stretch + read.stretches - 1].range;
  return {.offset = first.offset, .length = last.offset + last.length - first.offset};
}

uint32_t chunk_of(const EpochData& epoch, const PieceRead& read) {
  const LoadedGroup& group = epoch.loads[read.load.number];
  return group.slice != nullptr ? group.slice->runs[read.stretch].chunk
                                : stretches_of(epoch, read.load.number)[read.stretch].chunk;
}

}  // namespace forebay::feed
