// Entropy decoding of a restart segment in one thread of a GPU; the twin of entropy.cc. It reads at
// most 16 bytes outside its segment. It ends for any input, because each step advances within a
// block and the number of MCUs is fixed. The threads of a warp take their steps together. A step is
// one symbol, so no thread waits for the end of another thread's block.
#pragma once

#include "jpeg/kernels/bits_gpu.h"
#include "jpeg/kernels/region_gpu.h"

namespace forebay::jpeg::gpu {

// Returns the symbol of a code that is not in `quick` or `late`, in the form of their entries.
FOREBAY_GPU inline uint32_t find_by_length(const HuffmanLookup& lookup, uint32_t next) {
  const auto top = static_cast<int32_t>(next >> 16);
  for (uint32_t length = HuffmanLookup::kQuickBits + 1; length <= 16; ++length) {
    if (top >= lookup.code_end[length]) continue;
    return lookup.values[lookup.first[length] + (top >> (16 - length))] | length << 8;
  }
  return 0;
}

// Returns the symbol that `next` begins with | the length of its code << 8; 0 for an invalid code.
FOREBAY_GPU inline uint32_t find_symbol(const HuffmanLookup& lookup, uint32_t next) {
  uint32_t found = lookup.quick[next >> (32 - HuffmanLookup::kQuickBits)];
  if (found != 0) return found;
  if (const uint32_t top = next >> 16; top >= HuffmanLookup::kLateBegin) {
    found = lookup.late[top - HuffmanLookup::kLateBegin];
  }
  return found != 0 ? found : find_by_length(lookup, next);
}

// Returns the value of the first `size` bits (0 to 15) of `next` (T.81 figure F.12).
FOREBAY_GPU inline int32_t extend(uint32_t next, uint32_t size) {
  if (size == 0) return 0;
  const auto value = static_cast<int32_t>(next >> (32 - size));
  return next >> 31 != 0 ? value : value - (1 << size) + 1;
}

// The block that a thread decodes, as a position in its segment.
class BlockPosition {
 public:
  FOREBAY_GPU BlockPosition(const SegmentTask& segment, const Region& region, int16_t* coefficients)
      : across_(region.across),
        left_(region.left),
        right_(region.right),
        top_(region.top),
        bottom_(region.bottom),
        blocks_(region.blocks),
        coefficients_(coefficients),
        mcus_left_(segment.end_mcu - segment.first_mcu),
        row_(segment.first_mcu / region.across),
        column_(segment.first_mcu % region.across) {
    for (uint32_t b = 0; b < base::kMcuBlocksMax; ++b) {
      components_ |= uint32_t{region.component_of[b]} << (2 * b);
    }
    place_block();
  }
  // The component of the block.
  FOREBAY_GPU uint32_t component() const { return components_ >> (2 * block_) & 3; }
  // Where the block's coefficients go; null when only its DC is wanted.
  FOREBAY_GPU int16_t* out() const { return out_; }
  // Moves to the next block. Returns false if the segment has no more needed MCUs.
  FOREBAY_GPU bool next() {
    if (out_ != nullptr) out_ += 64;
    if (++block_ < blocks_) return true;
    block_ = 0;
    if (++column_ == across_) {
      column_ = 0;
      ++row_;
    }
    place_block();
    return --mcus_left_ > 0;
  }

 private:
  FOREBAY_GPU void place_block() {
    out_ = nullptr;
    if (row_ < top_ || row_ >= bottom_ || column_ < left_ || column_ >= right_) return;
    const uint32_t at = (row_ - top_) * (right_ - left_) + column_ - left_;
    out_ = coefficients_ + uint64_t{at} * blocks_ * 64;
  }

  const uint32_t across_;
  const uint32_t left_;
  const uint32_t right_;
  const uint32_t top_;
  const uint32_t bottom_;
  const uint32_t blocks_;
  int16_t* const coefficients_;
  uint32_t components_ = 0;  // two bits for each block of an MCU
  uint32_t mcus_left_;
  uint32_t row_;
  uint32_t column_;
  uint32_t block_ = 0;
  int16_t* out_ = nullptr;
};

// The numbers of the components' lookups, 16 bits each: a batch has fewer than 2^16 lookups.
class TableNumbers {
 public:
  FOREBAY_GPU explicit TableNumbers(const Region& region) {
    for (uint32_t c = 0; c < 3; ++c) {
      dc_ |= uint64_t{region.components[c].dc} << (16 * c);
      ac_ |= uint64_t{region.components[c].ac} << (16 * c);
    }
  }
  FOREBAY_GPU uint32_t dc(uint32_t component) const { return dc_ >> (16 * component) & 0xFFFF; }
  FOREBAY_GPU uint32_t ac(uint32_t component) const { return ac_ >> (16 * component) & 0xFFFF; }

 private:
  uint64_t dc_ = 0;
  uint64_t ac_ = 0;
};

// Decodes the blocks of a segment that the region needs, to the region's `coefficients`, in zigzag
// order. The coefficients must be zero before. Returns false when the data is malformed.
FOREBAY_GPU inline bool decode_segment(const SegmentTask& segment, const Region& region,
                                       const HuffmanLookup* lookups, RingReader bits,
                                       int16_t* coefficients) {
  constexpr uint32_t kLargestDcSize = 11;  // in baseline
  constexpr uint32_t kLargestAcSize = 10;
  static_assert(16 + kLargestDcSize <= RingReader::kDropBits);
  if (segment.first_mcu == segment.end_mcu) return true;
  BlockPosition place(segment, region, coefficients);
  TableNumbers tables(region);
  uint32_t component = place.component();
  int32_t last_dc[3] = {0, 0, 0};
  uint32_t k = 0;  // position of the next coefficient in its block, in zigzag order
  for (uint32_t step = 0;; ++step) {
    if (step % RingReader::kDropsPerFill == 0) bits.fill();
    const bool is_dc = k == 0;
    const uint32_t next = bits.peek();
    const uint32_t found =
        find_symbol(lookups[is_dc ? tables.dc(component) : tables.ac(component)], next);
    const uint32_t symbol = found & 0xFF;
    const uint32_t length = found >> 8;
    const uint32_t size = symbol & 15;
    const uint32_t at = k + (symbol >> 4);
    const bool is_end = symbol == 0 && !is_dc;  // of the block
    if (found == 0) return false;
    if (is_dc ? symbol > kLargestDcSize
              : size > kLargestAcSize || (!is_end && at >= 64) ||
                    (size == 0 && symbol != 0 && symbol != 0xF0)) {
      return false;
    }
    int32_t value = extend(next << length, size);
    bits.drop(length + size);
    if (is_dc) {
      // No array is indexed by a run-time value, so that all of this stays in registers.
      value += component == 0 ? last_dc[0] : component == 1 ? last_dc[1] : last_dc[2];
      value = static_cast<int16_t>(value);
      if (component == 0) last_dc[0] = value;
      if (component == 1) last_dc[1] = value;
      if (component == 2) last_dc[2] = value;
    }
    if ((is_dc || size > 0) && place.out() != nullptr)
      place.out()[at] = static_cast<int16_t>(value);
    k = is_end ? 64 : at + 1;
    if (k < 64) continue;
    if (bits.is_past_end()) return false;
    if (!place.next()) break;
    component = place.component();
    k = 0;
  }
  // A segment that leaves a whole byte unread is malformed.
  return segment.end_mcu < segment.whole_end || bits.left() < 8;
}

}  // namespace forebay::jpeg::gpu
