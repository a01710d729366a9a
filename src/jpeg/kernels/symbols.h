// Turns the coefficients of an image into the symbols that baseline Huffman coding writes, in the
// order of the file, before any table is chosen. Choosing tables and writing need only the symbols,
// so there is only one pass over the coefficients.
#pragma once

#include <memory>
#include <vector>

#include "jpeg/format/coefficients.h"
#include "jpeg/format/huffman_table.h"
#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

// A symbol with its value bits: bits 0 to 7 are the symbol, 8 and 9 the slot, 16 to 31 the value.
using Token = uint32_t;

// A buffer for tokens that grows without being cleared.
class TokenBuffer {
 public:
  // Makes room for `more` tokens after the first `used`.
  Token* reserve(size_t used, size_t more);
  const Token* data() const { return tokens_.get(); }
  // Frees the memory of an unusually large image.
  void trim();

 private:
  std::unique_ptr<Token[]> tokens_;
  size_t capacity_ = 0;
};

struct Symbols {
  TokenBuffer tokens;
  std::vector<size_t> segment_ends;  // the number of tokens up to the end of each restart segment
  std::array<Histogram, kSlots> histograms{};
};

// Collects the symbols of an interleaved scan over all components with a restart every `interval`
// MCUs (0: never). kUnsupported when a coefficient is too large for baseline. `kernel` is the best
// instruction set that may be used; AVX-512 collects the coefficients of a block at once.
Status collect_symbols(const Header& header, const Coefficients& coefficients, uint32_t interval,
                       EntropyKernel kernel, Symbols* out);

// Writes the tokens of a block's AC coefficients, without the end of the block, and returns their
// number. `base` holds the slot in the form of a token; `to` has room for 64. Returns -1 when a run
// is above 15 or a value needs more than ten bits. It is in symbols_avx512.cc, which may not use
// inline functions.
int ac_tokens_avx512(const int16_t* block, uint32_t base, Token* to);

}  // namespace forebay::jpeg
