#include "jpeg/symbols.h"

#include <algorithm>
#include <bit>

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;

constexpr size_t kTokensPerBlock = 65;  // at most: DC, 63 AC, end of block
constexpr size_t kTokensKept = size_t{4} << 20;

// For each row of a block and each pattern of its non-zeros, the bits they have in zigzag order.
using ZigzagBits = std::array<std::array<uint64_t, 256>, 8>;
constexpr ZigzagBits make_zigzag_bits() {
  ZigzagBits table{};
  for (size_t zigzag = 0; zigzag < 64; ++zigzag) {
    const size_t row = kZigzagToNatural[zigzag] / 8;
    const size_t bit = kZigzagToNatural[zigzag] % 8;
    for (size_t pattern = 0; pattern < 256; ++pattern) {
      if ((pattern >> bit & 1) != 0) table[row][pattern] |= uint64_t{1} << zigzag;
    }
  }
  return table;
}
constexpr ZigzagBits kZigzagBits = make_zigzag_bits();

// Which coefficients are not zero, bit k for the k-th in zigzag order.
uint64_t nonzero_mask(const int16_t* block) {
  uint64_t mask = 0;
  for (size_t row = 0; row < 8; ++row) {
    // Compilers make one compare, pack and movemask of this on both x86 and Arm.
    typedef int16_t Eight __attribute__((vector_size(16)));
    typedef int8_t EightBytes __attribute__((vector_size(8)));
    Eight values;
    std::memcpy(&values, block + row * 8, sizeof(values));
    const EightBytes set = __builtin_convertvector(values != 0, EightBytes);
    uint64_t bytes = 0;
    std::memcpy(&bytes, &set, sizeof(bytes));
    // One bit of each byte, gathered in the top byte.
    const uint64_t pattern = (bytes & 0x8040201008040201ull) * 0x0101010101010101ull >> 56;
    mask |= kZigzagBits[row][pattern];
  }
  return mask;
}

// Writes the tokens of blocks, and counts them.
class Tokenizer {
 public:
  explicit Tokenizer(std::array<Histogram, kSlots>* histograms) : histograms_(*histograms) {}

  // `to` has room for kTokensPerBlock; gives the end of what was written.
  Token* block(const int16_t* coefficients, int component, Token* to) {
    const uint32_t slot = component == 0 ? kDcLuma : kDcChroma;
    to = dc(coefficients[0], component, slot, to);
    Histogram& histogram = histograms_[slot + 1];
    const uint32_t base = (slot + 1) << 8;
    uint64_t left = nonzero_mask(coefficients) & ~uint64_t{1};
    int last = 0;
    while (left != 0) {
      const int k = std::countr_zero(left);
      left &= left - 1;
      int run = k - last - 1;
      last = k;
      for (; run > 15; run -= 16) to = put(base | 0xF0, 0, histogram, to);
      const int value = coefficients[kZigzagToNatural[static_cast<size_t>(k)]];
      const int size = size_of(value);
      largest_ac_ = std::max(largest_ac_, size);
      const auto symbol = static_cast<uint32_t>(run << 4 | (size & 15));
      to = put(base | symbol, value_bits(value, size), histogram, to);
    }
    return last == 63 ? to : put(base, 0, histogram, to);
  }
  // A block that pads an MCU at the image's border: as libjpeg writes them, DC of the block
  // before, no AC.
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
  // T.81 F.1.2.1: negative values as value - 1 in `size` bits.
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

  std::array<Histogram, kSlots>& histograms_;
  std::array<int, 4> last_dc_{};
  int largest_dc_ = 0;
  int largest_ac_ = 0;
};

// How a component's blocks lie in MCUs.
struct Layout {
  uint32_t across = 1;  // blocks of an MCU
  uint32_t down = 1;
  uint32_t width = 0;  // real blocks of the component
  uint32_t height = 0;
};

Token* tokenize_mcu(const BlockRows& rows, std::span<const Layout> layouts, uint32_t mcu_x,
                    uint32_t mcu_y, Tokenizer& tokenizer, Token* to) {
  for (size_t c = 0; c < layouts.size(); ++c) {
    const Layout& layout = layouts[c];
    for (uint32_t v = 0; v < layout.down; ++v) {
      const uint32_t y = mcu_y * layout.down + v;
      for (uint32_t h = 0; h < layout.across; ++h) {
        const uint32_t x = mcu_x * layout.across + h;
        const bool real = x < layout.width && y < layout.height;
        to = real ? tokenizer.block(rows[c][y][x], static_cast<int>(c), to)
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

Status find_block_rows(TurboReader& reader, jvirt_barray_ptr* arrays, BlockRows* out) {
  const jpeg_decompress_struct& info = reader.info();
  for (size_t c = 0; c < static_cast<size_t>(info.num_components); ++c) {
    (*out)[c].resize(info.comp_info[c].height_in_blocks);
  }
  // libjpeg-turbo keeps arrays in memory as a whole, so the rows may be held all at once.
  return reader.run([arrays, out](jpeg_decompress_struct& i) {
    for (size_t c = 0; c < static_cast<size_t>(i.num_components); ++c) {
      for (JDIMENSION y = 0; y < i.comp_info[c].height_in_blocks; ++y) {
        (*out)[c][y] =
            *i.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&i), arrays[c], y, 1, FALSE);
      }
    }
  });
}

Status collect_symbols(const jpeg_decompress_struct& info, const Header& header,
                       const BlockRows& rows, uint32_t interval, Symbols* out) {
  std::array<Layout, 4> layouts;
  const auto count = static_cast<size_t>(header.component_count);
  size_t blocks = 0;
  for (size_t c = 0; c < count; ++c) {
    const bool alone = count == 1;  // T.81 A.2.2: one component's MCU is one block
    layouts[c] = {alone ? 1u : header.components[c].horizontal,
                  alone ? 1u : header.components[c].vertical, info.comp_info[c].width_in_blocks,
                  info.comp_info[c].height_in_blocks};
    blocks += size_t{layouts[c].across} * layouts[c].down;
  }
  out->histograms = {};
  out->segment_ends.clear();
  Tokenizer tokenizer(&out->histograms);
  size_t used = 0;
  uint32_t until_restart = interval;
  for (uint32_t y = 0; y < header.mcus_down(); ++y) {
    Token* const row = out->tokens.reserve(used, header.mcus_across() * blocks * kTokensPerBlock);
    Token* to = row;
    for (uint32_t x = 0; x < header.mcus_across(); ++x) {
      if (interval != 0 && until_restart-- == 0) {
        out->segment_ends.push_back(used + static_cast<size_t>(to - row));
        tokenizer.restart();
        until_restart = interval - 1;
      }
      to = tokenize_mcu(rows, {layouts.data(), count}, x, y, tokenizer, to);
    }
    used += static_cast<size_t>(to - row);
  }
  out->segment_ends.push_back(used);
  if (tokenizer.fits_baseline()) return {};
  return fail(Code::kUnsupported, "JPEG: a coefficient is too large for baseline coding");
}

}  // namespace forebay::jpeg
