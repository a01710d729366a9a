#include "jpeg/region_decoder.h"

#include <algorithm>

namespace forebay::jpeg {
namespace {

using base::Rect;

constexpr uint32_t kBlockCoefficients = 64;
// Segments with more MCUs than this are split.
constexpr uint32_t kLongSegment = 16;
// The inverse DCT takes up to four neighbouring blocks at once.
constexpr uint32_t kMcusTogether = 4;

}  // namespace

bool RegionDecoder::lay_out(const Scan& scan, Bytes file, const Rect& region) {
  kept_ = nullptr;
  if (!layout_.find(scan, file.size() - scan.header.header_bytes, region)) return false;
  for (size_t c = 0; c < static_cast<size_t>(scan.component_count); ++c) {
    dequantisers_[c] = make_dequantiser(scan.components[c].quant);
  }
  const uint32_t most = kSliceBlocks / layout_.blocks;
  const uint32_t slice = most < kMcusTogether ? most : most - most % kMcusTogether;
  slice_mcus_ = std::min(slice, layout_.interval);
  header_bytes_ = scan.header.header_bytes;
  bits_bytes_ = unstuffed_bytes_max(layout_, file.subspan(header_bytes_));
  return true;
}

LookupCache::Found RegionDecoder::find_tables(const Scan& scan, LookupCache& cache,
                                              bool may_build) {
  std::array<uint32_t, 3> pair_of{};
  const auto found = cache.find(scan, may_build, &tables_, &pair_of);
  if (found != LookupCache::Found::kYes) return found;
  tables_.pairs = 0;
  const uint32_t blocks = slice_mcus_ * layout_.blocks;
  for (uint32_t b = 0; b < blocks; ++b) {
    tables_.pairs |= pair_of[layout_.component_of[b % layout_.blocks]] << b;
  }
  tables_.complete(blocks);
  return found;
}

bool RegionDecoder::find_segments(Bytes file, EntropyKernel kernel, uint8_t* bytes) {
  for (size_t c = 0; c < layout_.planes.size(); ++c) {
    layout_.planes[c].samples = bytes + layout_.plane_offsets[c];
  }
  needed_.clear();
  ranges_.clear();
  if (!copy_segments(layout_, file.subspan(header_bytes_), kernel, bytes + layout_.samples_bytes,
                     &needed_)) {
    return false;
  }
  for (const NeededSegment& needed : needed_) {
    ranges_.push_back({.data = needed.data,
                       .bits = needed.bytes * 8,
                       .next_mcu = needed.first_mcu,
                       .end_mcu = needed.end_mcu,
                       .whole_end = needed.whole_end});
  }
  return true;
}

void RegionDecoder::split_long_ranges(const LookupArena& arena, SegmentSplitter& splitter) {
  if (layout_.interval <= kLongSegment) return;
  split_.clear();
  for (const McuRange& range : ranges_) {
    const uint32_t begin = range.next_mcu;
    const auto points =
        splitter.split(arena, {.data = range.data,
                               .bits = range.bits,
                               .mcus = range.whole_end - begin,
                               .needed = range.end_mcu - begin,
                               .tables = &tables_,
                               .component_of = {layout_.component_of.data(), layout_.blocks},
                               .slice_mcus = slice_mcus_});
    for (size_t i = 0; i < points.size(); ++i) {
      const bool last = i + 1 == points.size();
      McuRange piece = range;
      piece.bit = points[i].bit;
      piece.dc = points[i].dc;
      piece.next_mcu = begin + points[i].mcu;
      if (!last) {
        piece.bits = points[i + 1].bit;
        piece.end_mcu = layout_.needed_end(piece.next_mcu, begin + points[i + 1].mcu);
      }
      if (!piece.done()) split_.push_back(piece);
    }
  }
  ranges_.swap(split_);
}

void RegionDecoder::begin_range(const McuRange& range, int16_t* out, Stream* stream) const {
  stream->data = range.data;
  stream->bits = range.bits;
  stream->bit = range.bit;
  stream->tables = &tables_;
  stream->out = out;
  stream->blocks = next_blocks(range);
}

uint32_t RegionDecoder::next_blocks(const McuRange& range) const {
  return std::min(slice_mcus_, range.end_mcu - range.next_mcu) * layout_.blocks;
}

bool RegionDecoder::take(McuRange& range, const Stream& stream) {
  if (stream.bad) return false;
  const RegionLayout& l = layout_;
  const uint32_t end = range.next_mcu + stream.blocks / l.blocks;
  sum_dc(range, stream);
  const size_t numbers = size_t{stream.blocks} * kBlockCoefficients;
  if (kept_ == nullptr) {
    make_samples(range.next_mcu, end, stream.out);
  } else {
    std::copy_n(stream.out, numbers,
                kept_ + size_t{range.next_mcu} * l.blocks * kBlockCoefficients);
    std::fill_n(stream.out, numbers, int16_t{0});
  }
  range.next_mcu = end;
  range.bit = stream.bit;
  // A range that leaves a whole byte unread is malformed.
  return end < range.whole_end || range.bits - range.bit < 8;
}

// Makes the samples of the MCUs [first, end), row by row, and zeroes the coefficients.
void RegionDecoder::make_samples(uint32_t first, uint32_t end, int16_t* coefficients) {
  const RegionLayout& l = layout_;
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

// Turns DC differences into DC coefficients.
void RegionDecoder::sum_dc(McuRange& range, const Stream& stream) {
  const size_t mcu_coefficients = size_t{layout_.blocks} * kBlockCoefficients;
  const size_t end = size_t{stream.blocks} * kBlockCoefficients;
  size_t first = 0;  // coefficient of the component in an MCU
  const auto& components = layout_.components;
  for (size_t c = 0; c < components.size() && components[c].blocks > 0; ++c) {
    const size_t coefficients = size_t{components[c].blocks} * kBlockCoefficients;
    int16_t dc = range.dc[c];
    for (size_t mcu = first; mcu < end; mcu += mcu_coefficients) {
      for (size_t at = mcu; at < mcu + coefficients; at += kBlockCoefficients) {
        dc = static_cast<int16_t>(dc + stream.out[at]);
        stream.out[at] = dc;
      }
    }
    range.dc[c] = dc;
    first += coefficients;
  }
}

// Transforms `count` neighbouring MCUs.
void RegionDecoder::transform_run(uint32_t row, uint32_t column, uint32_t count,
                                  int16_t* coefficients) {
  for (uint32_t b = 0; b < layout_.blocks;) {
    const size_t c = layout_.component_of[b];
    const RegionLayout::Component& component = layout_.components[c];
    const Plane& plane = layout_.planes[c];
    const size_t y =
        size_t{row - layout_.top} * component.mcu_height + layout_.y_of[b] * component.side;
    const size_t x = size_t{column - layout_.left} * component.mcu_width;
    const uint32_t across = component.mcu_width / component.side;
    transform_row({.coefficients = coefficients + b * kBlockCoefficients,
                   .across = across,
                   .mcu_stride = size_t{layout_.blocks} * kBlockCoefficients,
                   .count = count * across,
                   .side = component.side,
                   .samples = plane.samples + y * plane.stride + x,
                   .stride = plane.stride},
                  dequantisers_[c]);
    b += across;
  }
}

}  // namespace forebay::jpeg
