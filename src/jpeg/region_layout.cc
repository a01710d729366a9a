#include "jpeg/region_layout.h"

#include <algorithm>

#include "jpeg/format/markers.h"
#include "jpeg/kernels/stuffing.h"

namespace forebay::jpeg {
namespace {

constexpr size_t kRowSlack = kCacheLine;  // before and after each row of a plane
static_assert(kRowSlack >= base::kPlanarPadding);
// Fancy upsampling looks at one sample of half size beyond the region, which is two pixels.
constexpr uint32_t kContext = 2;

}  // namespace

bool RegionLayout::find(const Scan& scan, size_t scan_bytes, const base::Rect& region) {
  whole_segments = scan.whole_segments;
  find_mcus(scan, region);
  if (!find_blocks(scan)) return false;
  // A block takes at least two bits, so a file that claims more blocks than its bytes can hold gets
  // no memory for them.
  const uint64_t needed_blocks = uint64_t{needed_mcus()} * blocks;
  if (needed_blocks > scan_bytes * 4) return false;
  find_planes(scan);
  return true;
}

void RegionLayout::find_mcus(const Scan& scan, const base::Rect& region) {
  const Header& header = scan.header;
  const uint32_t mcu_width = header.mcu_width() / scan.scale;
  const uint32_t mcu_height = header.mcu_height() / scan.scale;
  across = header.mcus_across();
  mcus = header.mcu_count();
  left = (region.x - std::min(region.x, kContext)) / mcu_width;
  top = (region.y - std::min(region.y, kContext)) / mcu_height;
  right = std::min(across, divide_up(region.x + region.width + kContext, mcu_width));
  bottom = std::min(header.mcus_down(), divide_up(region.y + region.height + kContext, mcu_height));
  interval = header.restart_interval == 0 ? mcus : header.restart_interval;
}

bool RegionLayout::find_blocks(const Scan& scan) {
  const uint32_t mcu_across = scan.header.mcu_width() / 8;
  const uint32_t mcu_down = scan.header.mcu_height() / 8;
  blocks = 0;
  for (Component& component : components) component.blocks = 0;
  for (uint8_t c = 0; c < scan.component_count; ++c) {
    const ScanComponent& from = scan.components[c];
    const bool whole_factor = mcu_across % from.horizontal == 0 && mcu_down % from.vertical == 0;
    if (!whole_factor || blocks + from.horizontal * from.vertical > base::kMcuBlocksMax)
      return false;
    Component& to = components[c];
    to.side = from.side;
    to.blocks = from.horizontal * from.vertical;
    to.mcu_width = from.horizontal * from.side;
    to.mcu_height = from.vertical * from.side;
    for (uint8_t y = 0; y < from.vertical; ++y) {
      for (uint8_t x = 0; x < from.horizontal; ++x, ++blocks) {
        component_of[blocks] = c;
        x_of[blocks] = x;
        y_of[blocks] = y;
      }
    }
  }
  return true;
}

void RegionLayout::find_planes(const Scan& scan) {
  const Header& header = scan.header;
  size_t bytes = 0;
  for (size_t c = 0; c < static_cast<size_t>(scan.component_count); ++c) {
    const Component& component = components[c];
    Plane& plane = planes[c];
    plane.left = left * component.mcu_width;
    plane.top = top * component.mcu_height;
    plane.width = divide_up(header.width * component.mcu_width, header.mcu_width());
    plane.height = divide_up(header.height * component.mcu_height, header.mcu_height());
    const uint32_t lines = divide_up((right - left) * component.mcu_width, kCacheLine);
    plane.stride = lines * kCacheLine + 2 * kRowSlack;
    plane_offsets[c] = bytes + kRowSlack;
    bytes += size_t{bottom - top} * component.mcu_height * plane.stride;
  }
  samples_bytes = bytes + 2 * kRowSlack;
}

uint32_t RegionLayout::needed_end(uint32_t first, uint32_t end) const {
  for (uint32_t row = (end - 1) / across + 1; row-- > first / across;) {
    const uint32_t begin_needed = std::max(first, row * across + left);
    const uint32_t end_needed = std::min(end, row * across + right);
    if (row >= top && row < bottom && begin_needed < end_needed) return end_needed;
  }
  return first;
}

NeededSegment RegionLayout::segment(uint32_t number) const {
  const uint32_t first = number * interval;
  const uint32_t whole_end = std::min(mcus, first + interval);
  const uint32_t end = needed_end(first, whole_end);
  const bool to_its_end = whole_segments && end > first;
  return {.first_mcu = first, .end_mcu = to_its_end ? whole_end : end, .whole_end = whole_end};
}

size_t unstuffed_bytes_max(const RegionLayout& layout, Bytes scan_data) {
  return scan_data.size() + size_t{layout.needed_segments()} * kStreamPadding + kUnstuffedPadding;
}

bool copy_segments(const RegionLayout& layout, Bytes scan_data, EntropyKernel kernel, uint8_t* to,
                   std::vector<NeededSegment>* segments) {
  const uint32_t count = divide_up(layout.mcus, layout.interval);
  const uint32_t needed = layout.needed_segments();
  size_t at = 0;
  for (uint32_t number = 0; number < needed; ++number) {
    NeededSegment segment = layout.segment(number);
    size_t end = 0;
    if (segment.first_mcu == segment.end_mcu) {
      end = find_marker(scan_data, at);
    } else {
      const Unstuffed copied = copy_unstuffed(scan_data, at, kernel, to);
      end = copied.marker;
      segment.data = to;
      segment.bytes = copied.bytes;
      segments->push_back(segment);
      to += copied.bytes + kStreamPadding;
    }
    if (end == scan_data.size()) return false;
    const uint8_t expected = number + 1 == count ? kEoi : static_cast<uint8_t>(kRst0 + number % 8);
    if (scan_data[end + 1] != expected) return false;
    at = end + 2;
  }
  return true;
}

}  // namespace forebay::jpeg
