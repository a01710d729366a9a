// Writes the entropy-coded data of a baseline JPEG from symbols and tables: T.81 F.1.2.
#pragma once

#include "jpeg/restart_index.h"
#include "jpeg/symbols.h"

namespace forebay::jpeg {

using TableCodes = std::array<HuffmanCodes, kSlots>;

// Appends the segments with restart markers between them to `file`, and their lengths and checks
// to `segments`. Every symbol in use has a code.
void write_scan(const Symbols& symbols, const TableCodes& codes, base::ByteVector* file,
                std::vector<Segment>* segments);

// The low 16 bits of the CRC32C.
uint16_t segment_check(Bytes segment);

// Bits to bytes with 0xFF followed by 0x00; `finish` fills the last byte with ones.
class BitWriter {
 public:
  // Appends behind `used` bytes of `out`, whose size may be beyond: room that was made before.
  BitWriter(base::ByteVector* out, size_t used)
      : out_(out), at_(out->data() + used), end_(out->data() + out->size()) {}

  // `length` up to 54, two codes and their values; the bits above it are zero.
  void put(uint64_t bits, uint32_t length) {
    free_ -= static_cast<int>(length);
    if (free_ >= 0) [[likely]] {
      buffer_ = buffer_ << length | bits;
      return;
    }
    const int over = -free_;
    buffer_ = buffer_ << (static_cast<int>(length) - over) | bits >> over;
    store();
    free_ = 64 - over;
    buffer_ = bits;  // what was stored of it is shifted out later
  }
  void finish() {
    const int used = 64 - free_;
    const int bytes = (used + 7) / 8;
    const int padding = bytes * 8 - used;
    make_room();
    const uint64_t all = buffer_ << padding | ((1u << padding) - 1);
    for (int i = bytes - 1; i >= 0; --i) put_byte(static_cast<uint8_t>(all >> (8 * i)));
    free_ = 64;
    buffer_ = 0;
  }
  // After finish(): bytes as they are, no stuffing.
  void raw(uint8_t a, uint8_t b) {
    make_room();
    *at_++ = a;
    *at_++ = b;
  }
  // Bytes of `out` in use; exact after finish().
  size_t used() const { return static_cast<size_t>(at_ - out_->data()); }

 private:
  void put_byte(uint8_t byte) {
    *at_++ = byte;
    if (byte == 0xFF) *at_++ = 0;
  }
  void store() {
    make_room();
    const uint64_t ones = 0x0101010101010101ull;
    // A byte of 0xFF carries out of its top bit when one is added.
    if ((buffer_ & ~(buffer_ + ones) & (ones << 7)) == 0) [[likely]] {
      base::store_le(at_, __builtin_bswap64(buffer_));
      at_ += 8;
    } else {
      for (int shift = 56; shift >= 0; shift -= 8) {
        put_byte(static_cast<uint8_t>(buffer_ >> shift));
      }
    }
  }
  void make_room() {
    if (end_ - at_ < 16) [[unlikely]]
      grow();
  }
  void grow();

  base::ByteVector* out_;
  uint8_t* at_;
  uint8_t* end_;
  uint64_t buffer_ = 0;
  int free_ = 64;
};

}  // namespace forebay::jpeg
