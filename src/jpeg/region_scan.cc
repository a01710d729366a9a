#include "jpeg/region_scan.h"

#include <algorithm>

#include "jpeg/markers.h"
#include "jpeg/stuffing.h"

namespace forebay::jpeg {
namespace {

using base::Rect;

constexpr uint32_t kBlockCoefficients = 64;
constexpr size_t kRowSlack = kCacheLine;  // before each row of a plane, and as much behind
static_assert(kRowSlack >= base::kPlanarPadding);
// Longer segments, in MCUs, are split.
constexpr uint32_t kLongSegment = 16;
// The inverse DCT takes up to four blocks that are side by side.
constexpr uint32_t kMcusTogether = 4;
// Fancy upsampling looks at one sample of half size beyond the region: two pixels.
constexpr uint32_t kContext = 2;

}  // namespace

bool RegionScan::lay_out(const Scan& scan, Bytes file, const Rect& region) {
  kept_ = nullptr;
  lay_out_mcus(scan, region);
  if (!lay_out_blocks(scan)) return false;
  header_bytes_ = scan.header.header_bytes;
  const size_t bits = file.size() - header_bytes_;
  // A block takes two bits or more. Memory is not for what a file only claims to hold.
  const uint64_t blocks = uint64_t{needed_mcus()} * layout_.blocks;
  if (blocks > bits * 4) return false;
  lay_out_planes(scan);
  bits_bytes_ = bits + size_t{needed_segments()} * kStreamPadding + kUnstuffedPadding;
  return true;
}

LookupCache::Found RegionScan::find_tables(const Scan& scan, LookupCache& cache, bool may_build) {
  std::array<uint32_t, 3> pair_of{};
  const auto found = cache.find(scan, may_build, &tables_, &pair_of);
  if (found != LookupCache::Found::kYes) return found;
  tables_.pairs = 0;
  const uint32_t blocks = layout_.slice * layout_.blocks;
  for (uint32_t b = 0; b < blocks; ++b) {
    tables_.pairs |= pair_of[component_of_[b % layout_.blocks]] << b;
  }
  tables_.complete(blocks);
  return found;
}

void RegionScan::lay_out_mcus(const Scan& scan, const Rect& region) {
  const Header& header = scan.header;
  const uint32_t mcu_width = header.mcu_width() / scan.scale;
  const uint32_t mcu_height = header.mcu_height() / scan.scale;
  Layout& l = layout_;
  l.across = header.mcus_across();
  l.mcus = header.mcu_count();
  l.left = (region.x - std::min(region.x, kContext)) / mcu_width;
  l.top = (region.y - std::min(region.y, kContext)) / mcu_height;
  l.right = std::min(l.across, divide_up(region.x + region.width + kContext, mcu_width));
  l.bottom =
      std::min(header.mcus_down(), divide_up(region.y + region.height + kContext, mcu_height));
  l.interval = header.restart_interval == 0 ? l.mcus : header.restart_interval;
}

// From the image's beginning to the last one that the region needs.
uint32_t RegionScan::needed_mcus() const {
  return (layout_.bottom - 1) * layout_.across + layout_.right;
}

uint32_t RegionScan::needed_segments() const { return divide_up(needed_mcus(), layout_.interval); }

bool RegionScan::lay_out_blocks(const Scan& scan) {
  const uint32_t across = scan.header.mcu_width() / 8;
  const uint32_t down = scan.header.mcu_height() / 8;
  uint32_t blocks = 0;
  for (Component& component : components_) component.blocks = 0;
  for (uint8_t c = 0; c < scan.component_count; ++c) {
    const ScanComponent& from = scan.components[c];
    const bool whole_factor = across % from.horizontal == 0 && down % from.vertical == 0;
    if (!whole_factor || blocks + from.horizontal * from.vertical > kMcuBlocksMax) return false;
    Component& to = components_[c];
    to.side = from.side;
    to.blocks = from.horizontal * from.vertical;
    to.mcu_width = from.horizontal * from.side;
    to.mcu_height = from.vertical * from.side;
    to.dequantiser = make_dequantiser(from.quant);
    for (uint8_t y = 0; y < from.vertical; ++y) {
      for (uint32_t x = 0; x < from.horizontal; ++x, ++blocks) {
        component_of_[blocks] = c;
        y_of_[blocks] = y;
      }
    }
  }
  layout_.blocks = blocks;
  const uint32_t most = kSliceBlocksMax / blocks;
  const uint32_t slice = most < kMcusTogether ? most : most - most % kMcusTogether;
  layout_.slice = std::min(slice, layout_.interval);
  return true;
}

void RegionScan::lay_out_planes(const Scan& scan) {
  const Header& header = scan.header;
  const uint32_t mcus_across = layout_.right - layout_.left;
  const uint32_t mcus_down = layout_.bottom - layout_.top;
  size_t bytes = 0;
  for (size_t c = 0; c < static_cast<size_t>(scan.component_count); ++c) {
    const Component& component = components_[c];
    Plane& plane = planes_[c];
    plane.left = layout_.left * component.mcu_width;
    plane.top = layout_.top * component.mcu_height;
    plane.width = divide_up(header.width * component.mcu_width, header.mcu_width());
    plane.height = divide_up(header.height * component.mcu_height, header.mcu_height());
    const uint32_t lines = divide_up(mcus_across * component.mcu_width, kCacheLine);
    plane.stride = lines * kCacheLine + 2 * kRowSlack;
    plane_offsets_[c] = bytes + kRowSlack;
    bytes += size_t{mcus_down} * component.mcu_height * plane.stride;
  }
  samples_bytes_ = bytes + 2 * kRowSlack;
}

bool RegionScan::find_segments(Bytes file, EntropyKernel kernel, uint8_t* bytes) {
  segments_.clear();
  for (size_t c = 0; c < planes_.size(); ++c) planes_[c].samples = bytes + plane_offsets_[c];
  const Bytes bits = file.subspan(header_bytes_);
  const uint32_t count = divide_up(layout_.mcus, layout_.interval);
  const uint32_t needed = needed_segments();
  uint8_t* data = bytes + samples_bytes_;
  size_t at = 0;
  for (uint32_t number = 0; number < needed; ++number) {
    const uint32_t first = number * layout_.interval;
    const uint32_t whole_end = std::min(layout_.mcus, first + layout_.interval);
    const uint32_t end_mcu = needed_end(first, whole_end);
    size_t end = 0;
    if (first == end_mcu) {
      end = find_marker(bits, at);
    } else {
      const Unstuffed copied = copy_unstuffed(bits, at, kernel, data);
      end = copied.marker;
      Segment& segment = segments_.emplace_back();
      segment.data = data;
      segment.bits = uint64_t{copied.bytes} * 8;
      segment.next_mcu = first;
      segment.end_mcu = end_mcu;
      segment.whole_end = whole_end;
      data += copied.bytes + kStreamPadding;
    }
    if (end == bits.size()) return false;
    const uint8_t expected = number + 1 == count ? kEoi : static_cast<uint8_t>(kRst0 + number % 8);
    if (bits[end + 1] != expected) return false;
    at = end + 2;
  }
  return true;
}

void RegionScan::split_long_segments(const LookupArena& arena, SegmentSplitter& splitter) {
  if (layout_.interval <= kLongSegment) return;
  parts_.clear();
  for (const Segment& segment : segments_) {
    const uint32_t begin = segment.next_mcu;
    const auto points =
        splitter.split(arena, {.data = segment.data,
                               .bits = segment.bits,
                               .mcus = segment.whole_end - begin,
                               .needed = segment.end_mcu - begin,
                               .tables = &tables_,
                               .component_of = {component_of_.data(), layout_.blocks},
                               .slice_mcus = layout_.slice});
    for (size_t i = 0; i < points.size(); ++i) {
      const bool last = i + 1 == points.size();
      Segment part = segment;
      part.bit = points[i].bit;
      part.dc = points[i].dc;
      part.next_mcu = begin + points[i].mcu;
      if (!last) {
        part.bits = points[i + 1].bit;
        part.end_mcu = needed_end(part.next_mcu, begin + points[i + 1].mcu);
      }
      if (!part.done()) parts_.push_back(part);
    }
  }
  segments_.swap(parts_);
}

// Behind the last MCU of [first, end) that the region needs; `first` when there is none.
uint32_t RegionScan::needed_end(uint32_t first, uint32_t end) const {
  const Layout& l = layout_;
  for (uint32_t row = (end - 1) / l.across + 1; row-- > first / l.across;) {
    const uint32_t begin_needed = std::max(first, row * l.across + l.left);
    const uint32_t end_needed = std::min(end, row * l.across + l.right);
    if (row >= l.top && row < l.bottom && begin_needed < end_needed) return end_needed;
  }
  return first;
}

void RegionScan::begin_segment(const Segment& segment, int16_t* out, Stream* stream) const {
  stream->data = segment.data;
  stream->bits = segment.bits;
  stream->bit = segment.bit;
  stream->tables = &tables_;
  stream->out = out;
  stream->blocks = next_blocks(segment);
}

uint32_t RegionScan::next_blocks(const Segment& segment) const {
  return std::min(layout_.slice, segment.end_mcu - segment.next_mcu) * layout_.blocks;
}

bool RegionScan::take(Segment& segment, const Stream& stream) {
  if (stream.bad) return false;
  const Layout& l = layout_;
  const uint32_t end = segment.next_mcu + stream.blocks / l.blocks;
  sum_dc(segment, stream);
  const size_t numbers = size_t{stream.blocks} * kBlockCoefficients;
  if (kept_ == nullptr) {
    make_samples(segment.next_mcu, end, stream.out);
  } else {
    std::copy_n(stream.out, numbers,
                kept_ + size_t{segment.next_mcu} * l.blocks * kBlockCoefficients);
    std::fill_n(stream.out, numbers, int16_t{0});
  }
  segment.next_mcu = end;
  segment.bit = stream.bit;
  // A byte that nobody read is not in order.
  return end < segment.whole_end || segment.bits - segment.bit < 8;
}

// Row by row, of the MCUs [first, end). Leaves zeros.
void RegionScan::make_samples(uint32_t first, uint32_t end, int16_t* coefficients) {
  const Layout& l = layout_;
  const size_t mcu_coefficients = size_t{l.blocks} * kBlockCoefficients;
  const auto skip = [&](uint32_t count) {
    std::fill_n(coefficients, count * mcu_coefficients, int16_t{0});
    coefficients += count * mcu_coefficients;
  };
  for (uint32_t mcu = first; mcu < end;) {
    const uint32_t row = mcu / l.across;
    const uint32_t column = mcu - row * l.across;
    const uint32_t row_end = std::min(l.across, column + end - mcu);
    const bool needed = row >= l.top && row < l.bottom;
    const uint32_t from = needed ? std::clamp(l.left, column, row_end) : row_end;
    const uint32_t to = needed ? std::clamp(l.right, from, row_end) : row_end;
    skip(from - column);
    if (from < to) {
      transform_run(row, from, to - from, coefficients);
      coefficients += (to - from) * mcu_coefficients;
    }
    skip(row_end - to);
    mcu += row_end - column;
  }
}

// From differences to DC coefficients.
void RegionScan::sum_dc(Segment& segment, const Stream& stream) {
  const size_t mcu_coefficients = size_t{layout_.blocks} * kBlockCoefficients;
  const size_t end = size_t{stream.blocks} * kBlockCoefficients;
  size_t first = 0;  // coefficient of the component in an MCU
  for (size_t c = 0; c < components_.size() && components_[c].blocks > 0; ++c) {
    const size_t coefficients = size_t{components_[c].blocks} * kBlockCoefficients;
    int16_t dc = segment.dc[c];
    for (size_t mcu = first; mcu < end; mcu += mcu_coefficients) {
      for (size_t at = mcu; at < mcu + coefficients; at += kBlockCoefficients) {
        dc = static_cast<int16_t>(dc + stream.out[at]);
        stream.out[at] = dc;
      }
    }
    segment.dc[c] = dc;
    first += coefficients;
  }
}

// `count` MCUs side by side.
void RegionScan::transform_run(uint32_t row, uint32_t column, uint32_t count,
                               int16_t* coefficients) {
  for (uint32_t b = 0; b < layout_.blocks;) {
    const Component& component = components_[component_of_[b]];
    const Plane& plane = planes_[component_of_[b]];
    const size_t y = size_t{row - layout_.top} * component.mcu_height + y_of_[b] * component.side;
    const size_t x = size_t{column - layout_.left} * component.mcu_width;
    const uint32_t across = component.mcu_width / component.side;
    transform_row({.coefficients = coefficients + b * kBlockCoefficients,
                   .across = across,
                   .mcu_stride = size_t{layout_.blocks} * kBlockCoefficients,
                   .count = count * across,
                   .side = component.side,
                   .samples = plane.samples + y * plane.stride + x,
                   .stride = plane.stride},
                  component.dequantiser);
    b += across;
  }
}

}  // namespace forebay::jpeg
