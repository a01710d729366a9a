#include "jpeg/plan_gpu.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "jpeg/format/markers.h"
#include "jpeg/kernels/bits_gpu.h"
#include "jpeg/kernels/rgb_rows.h"
#include "jpeg/lookup_cache.h"

namespace forebay::jpeg::gpu {
namespace {

constexpr uint32_t kSegmentMcusForGpu = 128;
static_assert(kStreamPadding >= RingReader::kAroundBytes);

Component make_component(const Scan& scan, const RegionLayout& layout, size_t c) {
  const RegionLayout::Component& from = layout.components[c];
  const Plane& plane = layout.planes[c];
  Component to{};
  to.mcu_width = from.mcu_width;
  to.mcu_height = from.mcu_height;
  to.plane = layout.plane_offsets[c];
  to.stride = plane.stride;
  to.left = plane.left;
  to.top = plane.top;
  to.width = plane.width;
  to.height = plane.height;
  to.across = scan.header.mcu_width() / from.mcu_width;
  to.down = scan.header.mcu_height() / from.mcu_height;
  to.fancy = is_fancy(to.across, to.down, plane.width, scan.scale);
  for (size_t k = 0; k < 64; ++k) {
    to.steps[k] = static_cast<int16_t>(scan.components[c].quant[k]);
  }
  return to;
}

// Makes a region without the numbers of its lookups. Offsets count from the beginning of the
// region's own memory.
Region make_region(const Scan& scan, const RegionLayout& layout, const base::Rect& region) {
  Region out{};
  out.across = layout.across;
  out.left = layout.left;
  out.right = layout.right;
  out.top = layout.top;
  out.bottom = layout.bottom;
  out.blocks = layout.blocks;
  std::ranges::copy(layout.component_of, out.component_of);
  std::ranges::copy(layout.x_of, out.x_of);
  std::ranges::copy(layout.y_of, out.y_of);
  out.component_count = static_cast<uint32_t>(scan.component_count);
  for (size_t c = 0; c < out.component_count; ++c) {
    out.components[c] = make_component(scan, layout, c);
  }
  out.ycc = scan.colour == Colour::kYcc;
  out.x = region.x;
  out.y = region.y;
  out.width = region.width;
  out.height = region.height;
  return out;
}

}  // namespace

HuffmanLookup make_lookup(const HuffmanTable& table) {
  HuffmanLookup out{};
  uint32_t code = 0;
  uint32_t at = 0;
  for (uint32_t length = 1; length <= HuffmanLookup::kQuickBits; ++length, code <<= 1) {
    const uint32_t free_bits = HuffmanLookup::kQuickBits - length;
    for (uint32_t i = 0; i < table.bits[length - 1]; ++i, ++code) {
      // A caller that changes its file during the call may have produced a table with more codes.
      if (code >> length != 0 || at == table.values.size()) return out;
      const auto entry = static_cast<uint16_t>(table.values[at++] | length << 8);
      std::fill_n(out.quick + (code << free_bits), size_t{1} << free_bits, entry);
    }
  }
  for (uint32_t length = HuffmanLookup::kQuickBits + 1; length <= 16; ++length, code <<= 1) {
    const uint32_t free_bits = 16 - length;
    for (uint32_t i = 0; i < table.bits[length - 1]; ++i, ++code) {
      if (code >> length != 0 || at == table.values.size()) return out;
      const auto entry = static_cast<uint16_t>(table.values[at++] | length << 8);
      const uint32_t begin = code << free_bits;
      if (begin < HuffmanLookup::kLateBegin) continue;
      std::fill_n(out.late + (begin - HuffmanLookup::kLateBegin), size_t{1} << free_bits, entry);
    }
  }
  const CanonicalTable canonical = canonical_table(table);
  std::copy_n(canonical.code_end.begin(), std::size(out.code_end), out.code_end);
  std::ranges::copy(canonical.first, out.first);
  std::ranges::copy(canonical.values, out.values);
  return out;
}

void Plan::begin() {
  sizes_ = {};
  regions_.clear();
  segments_.clear();
  lookups_.clear();
  lookup_numbers_.clear();
}

bool Plan::lay_out(Bytes file, const Header& header, size_t scan_bytes, const base::Rect& region) {
  auto scan = read_scan(file, header);
  if (!scan) return false;
  scan->whole_segments = whole_segments_;
  if (!layout_.find(*scan, scan_bytes, region)) return false;
  scan_ = *scan;
  region_ = region;
  return std::min(layout_.interval, layout_.mcus) <= kSegmentMcusForGpu && may_use_tables();
}

size_t Plan::lay_out(Bytes file, const Header& header, const base::Rect& region) {
  const Bytes scan_data = file.subspan(header.header_bytes);
  if (!lay_out(file, header, scan_data.size(), region)) return 0;
  return unstuffed_bytes_max(layout_, scan_data);
}

bool Plan::lay_out(const ResidentJpeg& stored, const base::Rect& region) {
  return lay_out(stored.head, stored.header, stored.scan_bytes, region);
}

std::optional<ResidentJpeg> Plan::store(Bytes file, const Header& header, base::ByteVector* bits) {
  const size_t bits_bytes = lay_out(file, header, {0, 0, header.width, header.height});
  if (bits_bytes == 0) return {};
  const Bytes scan_data = file.subspan(header.header_bytes);
  const size_t begin = (bits->size() + 3) / 4 * 4;
  bits->resize(begin + bits_bytes);
  uint8_t* const to = bits->data() + begin;
  needed_.clear();
  if (!copy_segments(layout_, scan_data, kernel_, to, &needed_)) {
    bits->resize(begin);
    return {};
  }
  ResidentJpeg out;
  const Bytes head = file.first(header.header_bytes);
  out.head.assign(head.begin(), head.end());
  out.header = header;
  out.scan_bytes = scan_data.size();
  for (const NeededSegment& segment : needed_) {
    const auto at = static_cast<uint64_t>(segment.data - to);
    out.segments.push_back({at, static_cast<uint32_t>(segment.bytes)});
    out.bits_bytes = at + segment.bytes + kStreamPadding;
  }
  bits->resize(begin + out.bits_bytes);
  return out;
}

base::ByteVector Plan::restore(const ResidentJpeg& stored, Bytes bits) {
  base::ByteVector file = stored.head;
  for (size_t i = 0; i < stored.segments.size(); ++i) {
    for (const uint8_t byte : bits.subspan(stored.segments[i].begin, stored.segments[i].bytes)) {
      file.push_back(byte);
      if (byte == 0xFF) file.push_back(0);
    }
    const bool last = i + 1 == stored.segments.size();
    file.push_back(0xFF);
    file.push_back(last ? kEoi : static_cast<uint8_t>(kRst0 + i % 8));
  }
  return file;
}

// Same rule as LookupCache::find(). An image that libjpeg-turbo would decode on the host could
// report damage there that goes unseen on the GPU.
bool Plan::may_use_tables() const {
  const auto& c = scan_.components;
  const auto same = [&](size_t a, size_t b) { return c[a].dc == c[b].dc && c[a].ac == c[b].ac; };
  if (scan_.component_count == 3 && !same(0, 1) && !same(0, 2) && !same(1, 2)) return false;
  if (scan_.header.mcu_count() >= kPrivateTablesMcusMin) return true;
  for (size_t i = 0; i < static_cast<size_t>(scan_.component_count); ++i) {
    if (find_known_table(scan_.tables[c[i].dc], false) == nullptr ||
        find_known_table(scan_.tables[c[i].ac], true) == nullptr) {
      return false;
    }
  }
  return true;
}

Plan::Sizes Plan::sizes_with_next() const {
  const uint64_t mcus = uint64_t{layout_.right - layout_.left} * (layout_.bottom - layout_.top);
  Sizes sizes = sizes_;
  sizes.coefficients += mcus * layout_.blocks * 64;
  sizes.planes_bytes += layout_.samples_bytes;
  Region pixels{};
  pixels.x = region_.x;
  pixels.width = region_.width;
  pixels.height = region_.height;
  sizes.pixels_bytes += uint64_t{pixels.plane_bytes()} * 3;
  return sizes;
}

bool Plan::add(Bytes file, uint8_t* to) {
  needed_.clear();
  if (!copy_segments(layout_, file.subspan(scan_.header.header_bytes), kernel_, to, &needed_)) {
    return false;
  }
  for (const NeededSegment& needed : needed_) {
    const uint64_t byte = sizes_.bits_bytes + static_cast<uint64_t>(needed.data - to);
    add_segment(needed, 0, byte, needed.bytes);
  }
  add_region();
  if (!needed_.empty()) {
    const NeededSegment& last = needed_.back();
    sizes_.bits_bytes += static_cast<uint64_t>(last.data - to) + last.bytes + kStreamPadding;
  }
  return true;
}

void Plan::add(const ResidentJpeg& stored) {
  const auto words = reinterpret_cast<uint64_t>(stored.bits);
  for (uint32_t number = 0; number < layout_.needed_segments(); ++number) {
    const NeededSegment needed = layout_.segment(number);
    if (needed.first_mcu == needed.end_mcu) continue;
    const ResidentJpeg::SegmentExtent& segment = stored.segments[number];
    add_segment(needed, words, segment.begin, segment.bytes);
  }
  add_region();
}

// Adds a segment of the region that will be added next.
void Plan::add_segment(const NeededSegment& needed, uint64_t words, uint64_t byte, uint64_t bytes) {
  segments_.push_back({.region = static_cast<uint32_t>(regions_.size()),
                       .first_mcu = needed.first_mcu,
                       .end_mcu = needed.end_mcu,
                       .whole_end = needed.whole_end,
                       .words = words,
                       .bit = byte * 8,
                       .end_bit = (byte + bytes) * 8});
}

void Plan::add_region() {
  Region region = make_region(scan_, layout_, region_);
  region.coefficients = sizes_.coefficients;
  region.pixels = sizes_.pixels_bytes;
  for (size_t c = 0; c < region.component_count; ++c) {
    Component& component = region.components[c];
    component.plane += sizes_.planes_bytes;
    component.dc = lookup_of(scan_.tables[scan_.components[c].dc], false);
    component.ac = lookup_of(scan_.tables[scan_.components[c].ac], true);
  }
  sizes_ = sizes_with_next();
  regions_.push_back(region);
}

uint32_t Plan::lookup_of(Bytes table, bool ac) {
  const HuffmanTable* const known = find_known_table(table, ac);
  std::string key(ac ? "a" : "d");
  if (known == nullptr) {
    key.append(reinterpret_cast<const char*>(table.data()), table.size());
  } else {
    key += fmt::format("{}", static_cast<const void*>(known));
  }
  const auto [at, added] =
      lookup_numbers_.try_emplace(std::move(key), static_cast<uint32_t>(lookups_.size()));
  if (added) lookups_.push_back(make_lookup(known == nullptr ? table_of(table) : *known));
  return at->second;
}

const std::vector<SegmentTask>& Plan::sorted_segments() {
  constexpr size_t kClasses = 1024;
  constexpr int kClassBits = 10;
  uint64_t longest = 0;
  for (const SegmentTask& s : segments_) longest = std::max(longest, s.end_bit - s.bit);
  const int shift = std::max(0, static_cast<int>(std::bit_width(longest)) - kClassBits);
  const auto class_of = [&](const SegmentTask& s) {
    return kClasses - 1 - ((s.end_bit - s.bit) >> shift);
  };
  std::array<uint32_t, kClasses + 1> first{};
  for (const SegmentTask& s : segments_) ++first[class_of(s) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  sorted_.resize(segments_.size());
  for (const SegmentTask& s : segments_) sorted_[first[class_of(s)]++] = s;
  return sorted_;
}

}  // namespace forebay::jpeg::gpu
