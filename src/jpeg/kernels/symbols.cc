#include "jpeg/kernels/symbols.h"

#include <algorithm>
#include <bit>

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;

constexpr size_t kTokensPerBlock = 65;  // the most tokens: DC, 63 AC, end of block
constexpr size_t kTokensKept = size_t{4} << 20;

// Returns which coefficients are not zero: bit k for coefficient k.
uint64_t nonzero_mask(const int16_t* block) {
  uint64_t mask = 0;
  for (size_t eighth = 0; eighth < 8; ++eighth) {
    // Compilers turn this into one compare, pack and movemask on both x86 and Arm.
    typedef int16_t Eight __attribute__((vector_size(16)));
    typedef int8_t EightBytes __attribute__((vector_size(8)));
    Eight values;
    std::memcpy(&values, block + eighth * 8, sizeof(values));
    const EightBytes set = __builtin_convertvector(values != 0, EightBytes);
    uint64_t bytes = 0;
    std::memcpy(&bytes, &set, sizeof(bytes));
    // Gathers one bit of each byte in the top byte.
    mask |= ((bytes & 0x8040201008040201ull) * 0x0101010101010101ull >> 56) << (8 * eighth);
  }
  return mask;
}

// Writes the tokens of blocks and counts them.
class Tokenizer {
 public:
  Tokenizer(EntropyKernel kernel, std::array<Histogram, kSlots>* histograms)
      : at_once_(kernel == EntropyKernel::kAvx512), histograms_(*histograms) {}

  // Writes the tokens of a block to `to`, which has room for kTokensPerBlock. Returns the end of
  // the written tokens.
  Token* block(const int16_t* coefficients, int component, Token* to) {
    const uint32_t slot = component == 0 ? kDcLuma : kDcChroma;
    to = dc(coefficients[0], component, slot, to);
    Histogram& histogram = histograms_[slot + 1];
    const uint32_t base = (slot + 1) << 8;
#ifdef FOREBAY_X86_KERNELS
    if (at_once_) {
      const int count = ac_tokens_avx512(coefficients, base, to);
      for (int i = 0; i < count; ++i) ++histogram[to[i] & 255];
      if (count >= 0) {
        to += count;
        return coefficients[63] != 0 ? to : put(base, 0, histogram, to);
      }
    }
#endif
    uint64_t left = nonzero_mask(coefficients) & ~uint64_t{1};
    int last = 0;
    while (left != 0) {
      const int k = std::countr_zero(left);
      left &= left - 1;
      int run = k - last - 1;
      last = k;
      for (; run > 15; run -= 16) to = put(base | 0xF0, 0, histogram, to);
      const int value = coefficients[k];
      const int size = size_of(value);
      largest_ac_ = std::max(largest_ac_, size);
      const auto symbol = static_cast<uint32_t>(run << 4 | (size & 15));
      to = put(base | symbol, value_bits(value, size), histogram, to);
    }
    return last == 63 ? to : put(base, 0, histogram, to);
  }
  // Writes a block that fills up an MCU at the border of the image like libjpeg does: the DC of the
  // block before, no AC.
  Token* dummy(int component, Token* to) {
    const uint32_t slot = component == 0 ? kDcLuma : kDcChroma;
    to = put(slot << 8, 0, histograms_[slot], to);
    return put((slot + 1) << 8, 0, histograms_[slot + 1], to);
  }
  void restart() { last_dc_ = {}; }
  bool fits_baseline() const { return largest_dc_ <= 11 && largest_ac_ <= 10; }

 private:
  static int size_of(int value) {
    return static_cast<int>(std::bit_width(static_cast<uint32_t>(std::abs(value))));
  }
  // Returns the value bits: negative values as value - 1 in `size` bits (T.81 F.1.2.1).
  static uint32_t value_bits(int value, int size) {
    return static_cast<uint32_t>(value + (value >> 31)) & ((1u << size) - 1);
  }
  static Token* put(uint32_t slot_and_symbol, uint32_t value, Histogram& histogram, Token* to) {
    ++histogram[slot_and_symbol & 255];
    *to = slot_and_symbol | value << 16;
    return to + 1;
  }
  Token* dc(int value, int component, uint32_t slot, Token* to) {
    int& last = last_dc_[static_cast<size_t>(component)];
    const int difference = value - last;
    last = value;
    const int size = size_of(difference);
    largest_dc_ = std::max(largest_dc_, size);
    return put(slot << 8 | static_cast<uint32_t>(size), value_bits(difference, size),
               histograms_[slot], to);
  }

  [[maybe_unused]] const bool at_once_;
  std::array<Histogram, kSlots>& histograms_;
  std::array<int, 4> last_dc_{};
  int largest_dc_ = 0;
  int largest_ac_ = 0;
};

// Writes the tokens of an MCU with these blocks.
Token* tokenize_mcu(const int16_t* blocks, std::span<const ComponentBlocks> components,
                    uint32_t mcu_x, uint32_t mcu_y, Tokenizer& tokenizer, Token* to) {
  for (size_t c = 0; c < components.size(); ++c) {
    const ComponentBlocks& component = components[c];
    for (uint32_t v = 0; v < component.down; ++v) {
      for (uint32_t h = 0; h < component.across; ++h, blocks += 64) {
        const bool real = mcu_x * component.across + h < component.width &&
                          mcu_y * component.down + v < component.height;
        to = real ? tokenizer.block(blocks, static_cast<int>(c), to)
                  : tokenizer.dummy(static_cast<int>(c), to);
      }
    }
  }
  return to;
}

}  // namespace

Token* TokenBuffer::reserve(size_t used, size_t more) {
  if (capacity_ - used < more) {
    const size_t capacity = std::max(used + more, capacity_ * 2);
    auto grown = std::make_unique_for_overwrite<Token[]>(capacity);
    std::copy_n(tokens_.get(), used, grown.get());
    tokens_ = std::move(grown);
    capacity_ = capacity;
  }
  return tokens_.get() + used;
}

void TokenBuffer::trim() {
  if (capacity_ <= kTokensKept) return;
  tokens_.reset();
  capacity_ = 0;
}

Status collect_symbols(const Header& header, const Coefficients& coefficients, uint32_t interval,
                       EntropyKernel kernel, Symbols* out) {
  const auto components = component_blocks(header);
  const size_t row_blocks = coefficients.blocks.size() / 64 / header.mcus_down();
  const size_t mcu_blocks = row_blocks / header.mcus_across();
  const int16_t* blocks = coefficients.blocks.data();
  out->histograms = {};
  out->segment_ends.clear();
  Tokenizer tokenizer(kernel, &out->histograms);
  size_t used = 0;
  uint32_t until_restart = interval;
  for (uint32_t y = 0; y < header.mcus_down(); ++y) {
    Token* const row = out->tokens.reserve(used, row_blocks * kTokensPerBlock);
    Token* to = row;
    for (uint32_t x = 0; x < header.mcus_across(); ++x) {
      if (interval != 0 && until_restart-- == 0) {
        out->segment_ends.push_back(used + static_cast<size_t>(to - row));
        tokenizer.restart();
        until_restart = interval - 1;
      }
      to = tokenize_mcu(blocks, components, x, y, tokenizer, to);
      blocks += mcu_blocks * 64;
    }
    used += static_cast<size_t>(to - row);
  }
  out->segment_ends.push_back(used);
  if (tokenizer.fits_baseline()) return {};
  return fail(Code::kUnsupported, "JPEG: a coefficient is too large for baseline coding");
}

}  // namespace forebay::jpeg
