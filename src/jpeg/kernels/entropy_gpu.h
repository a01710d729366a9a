// Entropy decoding of a restart segment by one thread of a GPU; the twin of entropy.cc. It reads
// nothing outside its segment and ends whatever the bytes are, because each step advances in its
// block, and the number of MCUs is fixed.
#pragma once

#include "jpeg/kernels/region_gpu.h"

namespace forebay::jpeg::gpu {

// Reads bits from `bit` on, below `end_bit`, from big-endian `words`; after the end come zeros.
class BitReader {
 public:
  FOREBAY_GPU BitReader(const uint32_t* words, uint64_t bit, uint64_t end_bit)
      : words_(words), end_bit_(end_bit), next_(bit / 32) {
    refill();
    drop(static_cast<uint32_t>(bit % 32));
  }
  // Returns the next 32 bits.
  FOREBAY_GPU uint32_t peek() {
    if (count_ < 32) refill();
    return static_cast<uint32_t>(buffer_ >> 32);
  }
  // Drops fewer than 32 bits, which must have been peeked at.
  FOREBAY_GPU void drop(uint32_t bits) {
    buffer_ <<= bits;
    count_ -= bits;
  }
  FOREBAY_GPU bool is_past_end() const { return bit() > end_bit_; }
  FOREBAY_GPU uint64_t bit() const { return next_ * 32 - count_; }

 private:
  FOREBAY_GPU void refill() {
    uint32_t word = 0;
    if (next_ * 32 < end_bit_) {
      const uint32_t raw = words_[next_];
      word = raw << 24 | (raw & 0xFF00) << 8 | (raw >> 8 & 0xFF00) | raw >> 24;
    }
    ++next_;
    buffer_ |= uint64_t{word} << (32 - count_);
    count_ += 32;
  }

  const uint32_t* words_;
  uint64_t end_bit_;
  uint64_t next_;        // index of the next word
  uint64_t buffer_ = 0;  // the next bits; the first is the highest
  uint32_t count_ = 0;   // the number of bits in buffer_
};

// Returns the next symbol and drops its code; -1 for an invalid code. `peeked` receives the bits
// after the code.
FOREBAY_GPU inline int32_t next_symbol(const HuffmanLookup& lookup, BitReader& bits,
                                       uint32_t* peeked) {
  const uint32_t next = bits.peek();
  uint32_t length = 0;
  int32_t symbol = -1;
  if (const uint32_t quick = lookup.quick[next >> (32 - HuffmanLookup::kQuickBits)]; quick != 0) {
    length = quick >> 8;
    symbol = static_cast<int32_t>(quick & 0xFF);
  } else {
    const auto top = static_cast<int32_t>(next >> 16);
    for (length = HuffmanLookup::kQuickBits + 1; length <= 16; ++length) {
      if (top >= lookup.code_end[length]) continue;
      symbol = lookup.values[lookup.first[length] + (top >> (16 - length))];
      break;
    }
    if (symbol < 0) return -1;
  }
  bits.drop(length);
  *peeked = next << length;
  return symbol;
}

// Returns the value of the first `size` bits (0 to 15) of `next` (T.81 figure F.12).
FOREBAY_GPU inline int32_t extend(uint32_t next, uint32_t size) {
  if (size == 0) return 0;
  const auto value = static_cast<int32_t>(next >> (32 - size));
  return next >> 31 != 0 ? value : value - (1 << size) + 1;
}

// Decodes one block to `out`, in natural order, which must be zero before. When `out` is null, only
// the DC is wanted. Returns false for data that no encoder writes.
FOREBAY_GPU inline bool decode_block(const HuffmanLookup& dc, const HuffmanLookup& ac,
                                     BitReader& bits, int16_t* last_dc, int16_t* out) {
  constexpr int32_t kLargestDcSize = 11;  // in baseline
  constexpr uint32_t kLargestAcSize = 10;
  uint32_t next = 0;
  const int32_t dc_size = next_symbol(dc, bits, &next);
  if (dc_size < 0 || dc_size > kLargestDcSize) return false;
  *last_dc = static_cast<int16_t>(*last_dc + extend(next, static_cast<uint32_t>(dc_size)));
  bits.drop(static_cast<uint32_t>(dc_size));
  if (out != nullptr) out[0] = *last_dc;
  for (uint32_t k = 1; k < 64;) {
    const int32_t symbol = next_symbol(ac, bits, &next);
    if (symbol < 0) return false;
    if (symbol == 0) break;  // end of block
    const uint32_t run = static_cast<uint32_t>(symbol) >> 4;
    const uint32_t size = static_cast<uint32_t>(symbol) & 15;
    k += run;
    if (k >= 64 || size > kLargestAcSize || (size == 0 && run != 15)) return false;
    if (out != nullptr && size > 0) {
      out[ac.natural[k]] = static_cast<int16_t>(extend(next, size));
    }
    bits.drop(size);
    ++k;
  }
  return !bits.is_past_end();
}

// Decodes the blocks of a segment that the region needs to `coefficients` of the region. Returns
// false when the data is malformed.
FOREBAY_GPU inline bool decode_segment(const SegmentTask& segment, const Region& region,
                                       const HuffmanLookup* lookups, const uint32_t* words,
                                       int16_t* coefficients) {
  BitReader bits(words, segment.bit, segment.end_bit);
  int16_t dc[3] = {0, 0, 0};
  uint32_t row = segment.first_mcu / region.across;
  uint32_t column = segment.first_mcu % region.across;
  for (uint32_t mcu = segment.first_mcu; mcu < segment.end_mcu; ++mcu) {
    const bool needed =
        row >= region.top && row < region.bottom && column >= region.left && column < region.right;
    int16_t* out = nullptr;
    if (needed) {
      const uint32_t at = (row - region.top) * (region.right - region.left) + column - region.left;
      out = coefficients + uint64_t{at} * region.blocks * 64;
    }
    for (uint32_t block = 0; block < region.blocks; ++block) {
      const uint32_t c = region.component_of[block];
      const Component& component = region.components[c];
      if (!decode_block(lookups[component.dc], lookups[component.ac], bits, &dc[c], out)) {
        return false;
      }
      if (needed) out += 64;
    }
    if (++column == region.across) {
      column = 0;
      ++row;
    }
  }
  // A segment that leaves a whole byte unread is malformed.
  return segment.end_mcu < segment.whole_end || segment.end_bit - bits.bit() < 8;
}

}  // namespace forebay::jpeg::gpu
