// Reads the bits of a restart segment in one thread of a GPU. If the threads of a warp read their
// segments directly from the GPU's memory, all would wait for the slowest read at every symbol. So
// each thread reads large pieces long before it needs them, and keeps them in a ring in fast
// memory.
#pragma once

#include <cstdint>

#include "base/gpu.h"

namespace forebay::jpeg::gpu {

class RingReader {
 public:
  static constexpr uint32_t kRingWords = 32;  // of four bytes
  // The most pairs of peek() and drop() between two calls of fill().
  static constexpr uint32_t kDropsPerFill = 16;
  static constexpr uint32_t kDropBits = 27;
  static constexpr uint32_t kAroundBytes = 16;

  // Reads the bits [bit, end_bit) of big-endian `words`. After the end come some undefined bits,
  // then zeros. `ring` has room for kRingWords, `stride` words apart. kAroundBytes before and after
  // the segment must be readable.
  FOREBAY_GPU RingReader(uint32_t* ring, uint32_t stride, const uint32_t* words, uint64_t bit,
                         uint64_t end_bit)
      : ring_(ring), stride_(stride) {
    const auto address = reinterpret_cast<uint64_t>(words + bit / 32);
    quads_ = reinterpret_cast<const Quad*>(address / sizeof(Quad) * sizeof(Quad));
    bit_ = static_cast<uint32_t>(address % sizeof(Quad) * 8 + bit % 32);
    const uint64_t bits = end_bit - bit;
    end_bit_ = bit_ + (bits < kReadableBits ? static_cast<uint32_t>(bits) : kReadableBits);
    load();
    store();
    load();
  }
  // Makes the next bits available. Call it before the first drop and after every kDropsPerFill
  // drops.
  FOREBAY_GPU void fill() {
    if (loaded_words_ - bit_ / 32 >= kPieceWords) return;
    store();
    load();
  }
  // Returns the next 32 bits.
  FOREBAY_GPU uint32_t peek() const {
    const uint32_t word = bit_ / 32;
    const uint32_t high = ring_[word % kRingWords * stride_];
    const uint32_t low = ring_[(word + 1) % kRingWords * stride_];
#ifdef __CUDA_ARCH__
    return __funnelshift_l(low, high, bit_);
#else
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) << bit_ % 32 >> 32);
#endif
  }
  // Drops at most kDropBits bits.
  FOREBAY_GPU void drop(uint32_t bits) { bit_ += bits; }
  FOREBAY_GPU bool is_past_end() const { return bit_ > end_bit_; }
  // The number of bits that are left, when the end has not been passed.
  FOREBAY_GPU uint32_t left() const { return end_bit_ - bit_; }

 private:
  struct alignas(16) Quad {
    uint32_t words[4];
  };
  static constexpr uint32_t kPieceQuads = 4;
  static constexpr uint32_t kPieceWords = 4 * kPieceQuads;
  // A longer segment is malformed, which shows even if only this many of its bits are read.
  static constexpr uint32_t kReadableBits = uint32_t{1} << 30;
  // The ring holds enough bits from one call of fill() to the next, and has room for the next
  // piece.
  static_assert(kPieceWords * 32 >= kDropsPerFill * kDropBits + 64);
  static_assert(kRingWords >= 2 * kPieceWords);

  FOREBAY_GPU static uint32_t swapped(uint32_t raw) {
#ifdef __CUDA_ARCH__
    return __byte_perm(raw, 0, 0x0123);
#else
    return raw << 24 | (raw & 0xFF00) << 8 | (raw >> 8 & 0xFF00) | raw >> 24;
#endif
  }
  // Begins reading the next piece.
  FOREBAY_GPU void load() {
    for (uint32_t i = 0; i < kPieceQuads; ++i) {
      const uint32_t quad = loaded_words_ / 4 + i;
      piece_[i] = quad * 128 < end_bit_ ? quads_[quad] : Quad{};
    }
  }
  FOREBAY_GPU void store() {
    for (uint32_t i = 0; i < kPieceWords; ++i) {
      ring_[(loaded_words_ + i) % kRingWords * stride_] = swapped(piece_[i / 4].words[i % 4]);
    }
    loaded_words_ += kPieceWords;
  }

  uint32_t* ring_;
  uint32_t stride_;
  const Quad* quads_;
  uint32_t bit_;      // the next bit, counted from quads_ on
  uint32_t end_bit_;  // counted from quads_ on
  uint32_t loaded_words_ = 0;
  Quad piece_[kPieceQuads];  // the words after loaded_words_
};

}  // namespace forebay::jpeg::gpu
