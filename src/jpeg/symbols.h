// An image's coefficients as the symbols that baseline Huffman coding writes, in the order of the
// file, before any table is chosen. One pass over the coefficients; choosing tables and writing
// need only the symbols.
#pragma once

#include <memory>
#include <vector>

#include "jpeg/huffman_table.h"
#include "jpeg/turbo.h"

namespace forebay::jpeg {

// Positions of the zigzag order in rows of 8: T.81 figure A.6.
inline constexpr std::array<uint8_t, 64> kZigzagToNatural = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// A symbol with its value bits: bits 0 to 7 the symbol, 8 and 9 the slot, 16 to 31 the value.
using Token = uint32_t;

// Room for tokens that grows without being cleared.
class TokenBuffer {
 public:
  // Makes room for `more` tokens behind the first `used`.
  Token* reserve(size_t used, size_t more);
  const Token* data() const { return tokens_.get(); }
  // Gives the memory of an unusually large image back.
  void trim();

 private:
  std::unique_ptr<Token[]> tokens_;
  size_t capacity_ = 0;
};

struct Symbols {
  TokenBuffer tokens;
  std::vector<size_t> segment_ends;  // tokens up to the end of each restart segment
  std::array<Histogram, kSlots> histograms{};
};

// Where libjpeg keeps the coefficients after jpeg_read_coefficients; for each component, a
// pointer for each row of blocks. They stay valid until the reader is closed.
using BlockRows = std::array<std::vector<JBLOCKROW>, 4>;
Status find_block_rows(TurboReader& reader, jvirt_barray_ptr* arrays, BlockRows* out);

// The symbols of an interleaved scan over all components with a restart every `interval` MCUs
// (0: never). kUnsupported when a coefficient is too large for baseline.
Status collect_symbols(const jpeg_decompress_struct& info, const Header& header,
                       const BlockRows& rows, uint32_t interval, Symbols* out);

}  // namespace forebay::jpeg
