// An image's coefficients as the symbols that baseline Huffman coding writes, in the order of the
// file, before any table is chosen. One pass over the coefficients; choosing tables and writing
// need only the symbols.
#pragma once

#include <memory>
#include <vector>

#include "jpeg/coefficients.h"
#include "jpeg/entropy.h"
#include "jpeg/huffman_table.h"

namespace forebay::jpeg {

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

// The symbols of an interleaved scan over all components with a restart every `interval` MCUs
// (0: never). kUnsupported when a coefficient is too large for baseline.
// `kernel`: the best that may be used; AVX-512's collects a block's coefficients at once.
Status collect_symbols(const Header& header, const Coefficients& coefficients, uint32_t interval,
                       EntropyKernel kernel, Symbols* out);

// The tokens of a block's AC coefficients, but for its end, and their number. `base`: their slot,
// where a token has it. `to`: room for 64. -1 where a run is above 15 or a value beyond ten bits.
// In symbols_avx512.cc, which may use no inline functions.
int ac_tokens_avx512(const int16_t* block, uint32_t base, Token* to);

}  // namespace forebay::jpeg
