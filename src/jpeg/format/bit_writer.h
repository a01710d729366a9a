// Writes entropy-coded data bit by bit: ITU-T T.81 (JPEG), B.1.1.5 and F.1.2.
#pragma once

#include "base/bytes.h"

namespace forebay::jpeg {

// Turns bits into bytes and writes 0x00 after every 0xFF. finish() fills the last byte with ones.
class BitWriter {
 public:
  // Appends after the first `used` bytes of `out`. The size of `out` may be larger: room that was
  // made in advance.
  BitWriter(base::ByteVector* out, size_t used)
      : out_(out), at_(out->data() + used), end_(out->data() + out->size()) {}

  // Appends the lowest `length` bits of `bits`; the bits above must be zero. `length` is at most
  // 54, enough for two codes with their values.
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
    buffer_ = bits;  // the stored bits are shifted out later
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
  // Appends two bytes without stuffing; only after finish().
  void raw(uint8_t a, uint8_t b) {
    make_room();
    *at_++ = a;
    *at_++ = b;
  }
  // The number of bytes of `out` in use; exact after finish().
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
