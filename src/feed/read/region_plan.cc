#include "feed/read/region_plan.h"

#include <algorithm>

namespace forebay::feed {

using base::Bytes;
using base::Rect;
using jpeg::Subsampling;

namespace {

// The luma sampling factors of an image with three components, of which chroma has 1 x 1.
struct Sampling {
  uint8_t across = 1;
  uint8_t down = 1;
};

std::optional<Sampling> sampling_of(Subsampling subsampling) {
  switch (subsampling) {
    case Subsampling::k444:
      return Sampling{1, 1};
    case Subsampling::k422:
      return Sampling{2, 1};
    case Subsampling::k440:
      return Sampling{1, 2};
    case Subsampling::k420:
      return Sampling{2, 2};
    case Subsampling::k411:
      return Sampling{4, 1};
    case Subsampling::k410:
      return Sampling{4, 2};
    case Subsampling::kUnknown:
    case Subsampling::kGray:
    case Subsampling::kOther:
      break;
  }
  return std::nullopt;
}

// MCUs between restart markers, as rewriting chooses them by default (jpeg::RewriteOptions).
uint32_t usual_interval(Subsampling subsampling) {
  return subsampling == Subsampling::k444 || subsampling == Subsampling::kGray ? 8 : 4;
}

Rect expanded(const Rect& region, uint32_t by, image::Size size) {
  const uint32_t x = region.x - std::min(region.x, by);
  const uint32_t y = region.y - std::min(region.y, by);
  const uint32_t right = std::min(region.x + region.width + by, size.width);
  const uint32_t bottom = std::min(region.y + region.height + by, size.height);
  return {x, y, right - x, bottom - y};
}

}  // namespace

std::optional<jpeg::Header> expected_header(const IndexedImage& image) {
  jpeg::Header header{.width = image.width, .height = image.height, .component_count = 1};
  if (image.subsampling != Subsampling::kGray) {
    const auto sampling = sampling_of(image.subsampling);
    if (!sampling) return std::nullopt;
    header.component_count = 3;
    header.components[0].horizontal = sampling->across;
    header.components[0].vertical = sampling->down;
  }
  header.restart_interval = usual_interval(image.subsampling);
  if (header.segment_count() != image.restart.segments.size()) return std::nullopt;
  return header;
}

bool fits(const jpeg::Header& header, const IndexedImage& image) {
  return header.width == image.width && header.height == image.height &&
         header.segment_count() == image.restart.segments.size() &&
         header.header_bytes == image.restart.header_bytes;
}

bool may_need_less(const image::Transform& transform) {
  if (transform.oriented) return false;
  struct {
    bool operator()(const image::RandomResizedCrop&) const { return true; }
    bool operator()(const image::RandomCrop& crop) const { return !crop.resize; }
    bool operator()(const image::CentreCrop& crop) const { return !crop.resize; }
    bool operator()(const image::WholeImage&) const { return false; }
  } const is_cut;
  const auto* const whole = std::get_if<image::WholeImage>(&transform.crop);
  if (whole != nullptr && !whole->resize) return image::may_change_size(transform.steps);
  return std::visit(is_cut, transform.crop);
}

// An image at half, a quarter or an eighth of its size: each pixel comes from one block, and
// interpolated chroma also from the next chroma sample, which is at most two such pixels wide.
Rect decoded_region(const image::Transform& transform, const image::Draw& drawn, image::Size size) {
  image::Encoded source{.file = {}, .format = image::Format::kJpeg, .size = size, .jpeg = {}};
  const uint32_t scale = image::decode_scale(transform, source, drawn);
  return scale == 1 ? drawn.cut.region : expanded(drawn.cut.region, 4 * scale, size);
}

std::optional<RegionPieces> plan_pieces(const IndexedImage& image, Bytes header, const Rect& region,
                                        const ReadCost& cost) {
  RegionPieces out{.segments = {}, .places = {}, .has_header = header.empty()};
  std::optional<jpeg::Header> geometry;
  if (header.empty()) {
    geometry = expected_header(image);
  } else if (const auto parsed = jpeg::parse_header(header); parsed && fits(*parsed, image)) {
    geometry = *parsed;
  }
  if (!geometry) return std::nullopt;
  out.segments = jpeg::segments_for_region(*geometry, region);
  if (out.segments.empty()) return std::nullopt;
  if (out.has_header) out.places.push_back({image.offset, image.restart.header_bytes});
  for (const jpeg::ByteRange& place : jpeg::places_of(image.restart, out.segments)) {
    out.places.push_back({image.offset + place.offset, place.length});
  }
  if (cost.is_nearly_whole(out.places, image.length)) return std::nullopt;
  return out;
}

FileRange extent_of(std::span<const FileRange> places) {
  const FileRange& last = places.back();
  const uint64_t begin = places.front().offset;
  return {.offset = begin, .length = last.offset + last.length - begin};
}

std::vector<ChunkRun> join_runs(std::vector<WantedBytes>& wanted, uint64_t gap_bytes_max) {
  std::vector<WantedBytes*> sorted;
  sorted.reserve(wanted.size());
  for (WantedBytes& one : wanted) sorted.push_back(&one);
  std::ranges::sort(sorted, {}, [](const WantedBytes* one) {
    return std::pair(one->of.chunk, one->of.range.offset);
  });
  std::vector<ChunkRun> runs;
  for (WantedBytes* one : sorted) {
    const auto& [chunk, range] = one->of;
    const uint64_t end = range.offset + range.length;
    if (!runs.empty() && runs.back().chunk == chunk) {
      FileRange& last = runs.back().range;
      const uint64_t last_end = last.offset + last.length;
      if (range.offset <= last_end + gap_bytes_max) {
        last.length = std::max(last_end, end) - last.offset;
        one->run = runs.size() - 1;
        continue;
      }
    }
    one->run = runs.size();
    runs.push_back(one->of);
  }
  return runs;
}

}  // namespace forebay::feed
