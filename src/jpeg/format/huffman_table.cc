#include "jpeg/format/huffman_table.h"

#include <algorithm>
#include <vector>

namespace forebay::jpeg {

using base::Bytes;
using base::Code;
using base::fail;

namespace {

// A symbol; 256 stands for the reserved code of all ones.
struct Leaf {
  uint64_t count = 0;
  int symbol = 0;
};
constexpr int kReserved = 256;

// Returns the depths of a Huffman tree over `leaves`, which are sorted by count. Uses two queues,
// in linear time.
std::vector<uint32_t> tree_depths(const std::vector<Leaf>& leaves) {
  const size_t n = leaves.size();
  std::vector<uint64_t> weight(2 * n - 1);
  std::vector<size_t> parent(2 * n - 1, 0);
  for (size_t i = 0; i < n; ++i) weight[i] = leaves[i].count;
  size_t leaf = 0;
  size_t inner = n;
  for (size_t node = n; node < 2 * n - 1; ++node) {
    for (int child = 0; child < 2; ++child) {
      const bool take_leaf = leaf < n && (inner >= node || weight[leaf] <= weight[inner]);
      const size_t taken = take_leaf ? leaf++ : inner++;
      weight[node] += weight[taken];
      parent[taken] = node;
    }
  }
  std::vector<uint32_t> depth(2 * n - 1, 0);
  for (size_t i = 2 * n - 2; i-- > 0;) depth[i] = depth[parent[i]] + 1;
  depth.resize(n);
  return depth;
}

// T.81 figure K.3: pairs of codes that are too long move up, where a shorter code becomes two.
void limit_to_16(std::array<uint32_t, 64>* lengths) {
  auto& count = *lengths;
  for (size_t i = 63; i > 16; --i) {
    while (count[i] > 0) {
      size_t j = i - 2;
      while (count[j] == 0) --j;
      count[i] -= 2;
      count[i - 1] += 1;
      count[j + 1] += 2;
      count[j] -= 1;
    }
  }
}

}  // namespace

HuffmanTable optimal_table(const Histogram& histogram) {
  std::vector<Leaf> leaves{{1, kReserved}};
  for (int symbol = 0; symbol < 256; ++symbol) {
    uint32_t count = histogram[static_cast<size_t>(symbol)];
    if (symbol == 0) count = std::max(count, 1u);
    if (count > 0) leaves.push_back({count, symbol});
  }
  // The reserved code sorts first among equal counts, so it is one of the longest.
  std::ranges::sort(leaves, [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.symbol > b.symbol;
  });
  std::array<uint32_t, 64> lengths{};
  for (const uint32_t depth : tree_depths(leaves)) ++lengths[depth];
  limit_to_16(&lengths);
  size_t longest = 16;
  while (lengths[longest] == 0) --longest;
  --lengths[longest];  // the reserved code

  HuffmanTable table;
  for (size_t i = 0; i < 16; ++i) table.bits[i] = static_cast<uint8_t>(lengths[i + 1]);
  for (size_t i = leaves.size(); i-- > 0;) {
    if (leaves[i].symbol == kReserved) continue;
    table.values[table.count++] = static_cast<uint8_t>(leaves[i].symbol);
  }
  return table;
}

HuffmanCodes codes_of(const HuffmanTable& table) {
  HuffmanCodes out;
  uint32_t code = 0;
  uint32_t at = 0;
  for (uint8_t length = 1; length <= 16; ++length) {
    for (int i = 0; i < table.bits[length - 1u]; ++i) {
      const uint8_t symbol = table.values[at++];
      out.code[symbol] = static_cast<uint16_t>(code++);
      out.length[symbol] = length;
      out.rank[symbol] = static_cast<uint16_t>(at);
    }
    code <<= 1;
  }
  return out;
}

HuffmanTable cut_table(const HuffmanTable& table, uint32_t count) {
  HuffmanTable out;
  for (size_t i = 0; i < 16; ++i) {
    const uint32_t kept = std::min<uint32_t>(table.bits[i], count - out.count);
    out.bits[i] = static_cast<uint8_t>(kept);
    out.count += kept;
  }
  std::copy_n(table.values.begin(), out.count, out.values.begin());
  return out;
}

uint32_t codes_needed(const HuffmanCodes& codes, const Histogram& histogram) {
  uint32_t needed = codes.rank[0];
  for (size_t i = 0; i < 256; ++i) {
    if (histogram[i] != 0) needed = std::max<uint32_t>(needed, codes.rank[i]);
  }
  return needed;
}

uint64_t code_bits(const HuffmanCodes& codes, const Histogram& histogram) {
  uint64_t bits = 0;
  for (size_t i = 0; i < 256; ++i) bits += uint64_t{histogram[i]} * codes.length[i];
  return bits;
}

base::Status read_table(Bytes payload, size_t* at, TableBytes* tables) {
  const Bytes rest = payload.subspan(*at);
  const auto bad = [] { return fail(Code::kCorrupt, "JPEG: malformed Huffman table"); };
  if (rest.size() < 17 || (rest[0] & 0xEC) != 0) return bad();
  uint32_t room = 1;  // unused codes of the current length, including the one of all ones
  uint32_t symbols = 0;
  for (const uint8_t count : rest.subspan(1, 16)) {
    room *= 2;
    if (count >= room) return bad();
    room -= count;
    symbols += count;
  }
  if (symbols > 256 || symbols > rest.size() - 17) return bad();
  (*tables)[(rest[0] >> 4u) * 4u + (rest[0] & 3u)] = rest.subspan(1, 16 + symbols);
  *at += 17 + symbols;
  return {};
}

HuffmanTable table_of(Bytes bytes) {
  HuffmanTable table;
  if (bytes.empty()) return table;
  table.count = static_cast<uint32_t>(bytes.size() - 16);
  std::copy_n(bytes.begin(), 16, table.bits.begin());
  std::copy_n(bytes.begin() + 16, table.count, table.values.begin());
  return table;
}

bool is_legal_symbol(bool ac, int symbol) {
  if (!ac) return symbol <= 11;
  const int size = symbol & 15;
  return symbol == 0x00 || symbol == 0xF0 || (size >= 1 && size <= 10);
}

}  // namespace forebay::jpeg
