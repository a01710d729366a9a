// Valid files that no encoder makes: coefficients and quantisers that exceed 16 bits, and Huffman
// tables of any shape. All kernels are compared with libjpeg-turbo's plain code; its SIMD code
// gives other pixels where a dequantised coefficient does not fit 16 bits.
#include <cstdlib>
#include <filesystem>

#include "jpeg/rewrite/scan_writer.h"
#include "jpeg/testing/decode_batch.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

constexpr uint8_t kEndOfBlock = 0x00;
constexpr uint8_t kZeroRun = 0xF0;
constexpr uint8_t kNextPlace = 0x01;  // a coefficient of one bit, no zeros before it

// A table with its codes by rank, because a symbol may have several codes.
struct Codes {
  struct Code {
    uint8_t symbol = 0;
    uint32_t bits = 0;
    uint32_t length = 0;
  };
  explicit Codes(const HuffmanTable& from) : table(from) {
    uint32_t code = 0;
    for (uint32_t length = 1; length <= 16; ++length, code <<= 1) {
      for (int i = 0; i < table.bits[length - 1]; ++i) {
        all.push_back({table.values[all.size()], code++, length});
      }
    }
    const auto ends = [](const Code& c) {
      return c.symbol == kEndOfBlock || c.symbol == kNextPlace;
    };
    end = static_cast<size_t>(std::ranges::find_if(all, ends) - all.begin());
  }
  const Code& any(Random& random) const { return all[random.below(all.size())]; }

  HuffmanTable table;
  std::vector<Code> all;
  size_t end = 0;  // for AC: a code that fits at any place
};

// How a file is made.
struct Plan {
  struct Part {
    uint32_t across = 1;  // sampling factors
    uint32_t down = 1;
    uint32_t quant = 0;  // which table
    uint32_t pair = 0;   // which pair of Huffman tables
  };
  struct Pair {
    Codes dc;
    Codes ac;
  };
  uint32_t width = 8;
  uint32_t height = 8;
  std::vector<Part> components = {{}};
  std::vector<std::array<uint16_t, 64>> quants;
  std::vector<Pair> pairs;
  uint32_t restart = 0;  // MCUs
  uint64_t rarity = 10;  // how rarely blocks end before a place
  int sign = 0;          // the sign of all DC differences; 0: any
};

// Writes a plan as a file, with random symbols and values.
class StreamFile {
 public:
  StreamFile(const Plan& plan, Random& random) : plan_(plan), random_(random) {
    write_header();
    write_scan();
  }
  ByteVector take() { return std::move(bytes_); }

 private:
  void put(std::initializer_list<uint32_t> all) {
    for (const uint32_t byte : all) bytes_.push_back(static_cast<uint8_t>(byte));
  }
  void put_16(uint32_t number) { put({number >> 8, number}); }
  void put_marker(uint32_t code, uint32_t payload) {
    put({0xFF, code});
    put_16(payload + 2);
  }

  void write_header() {
    const auto count = static_cast<uint32_t>(plan_.components.size());
    put({0xFF, 0xD8});
    for (uint32_t i = 0; i < plan_.quants.size(); ++i) write_quant(i);
    put_marker(random_.below(2) == 0 ? 0xC0 : 0xC1, 6 + 3 * count);
    put({8});
    put_16(plan_.height);
    put_16(plan_.width);
    put({count});
    for (uint32_t c = 0; c < count; ++c) {
      const Plan::Part& part = plan_.components[c];
      put({c + 1, part.across << 4 | part.down, part.quant});
    }
    for (uint32_t i = 0; i < plan_.pairs.size(); ++i) {
      write_table(i, plan_.pairs[i].dc.table);
      write_table(0x10 | i, plan_.pairs[i].ac.table);
    }
    put_marker(0xDD, 2);
    put_16(plan_.restart);
    put_marker(0xDA, 4 + 2 * count);
    put({count});
    for (uint32_t c = 0; c < count; ++c) put({c + 1, plan_.components[c].pair * 0x11});
    put({0, 63, 0});
  }

  void write_quant(uint32_t number) {
    const auto& steps = plan_.quants[number];
    const bool wide = std::ranges::max(steps) > 255 || random_.below(2) == 0;
    put_marker(0xDB, wide ? 129 : 65);
    put({(wide ? 0x10 : 0) | number});
    for (const uint32_t step : steps) wide ? put_16(step) : put({step});
  }

  void write_table(uint32_t name, const HuffmanTable& table) {
    put_marker(0xC4, table.dht_bytes());
    put({name});
    bytes_.insert(bytes_.end(), table.bits.begin(), table.bits.end());
    bytes_.insert(bytes_.end(), table.values.begin(), table.values.begin() + table.count);
  }

  void write_scan() {
    const uint32_t mcus = parse_header(bytes_)->mcu_count();
    const bool alone = plan_.components.size() == 1;
    BitWriter bits(&bytes_, bytes_.size());
    uint32_t restarts = 0;
    for (uint32_t mcu = 0; mcu < mcus; ++mcu) {
      if (plan_.restart != 0 && mcu != 0 && mcu % plan_.restart == 0) {
        bits.finish();
        bits.raw(0xFF, static_cast<uint8_t>(0xD0 + restarts++ % 8));
      }
      for (const Plan::Part& part : plan_.components) {
        const uint32_t blocks = alone ? 1 : part.across * part.down;
        for (uint32_t i = 0; i < blocks; ++i) write_block(plan_.pairs[part.pair], bits);
      }
    }
    bits.finish();
    bits.raw(0xFF, 0xD9);
    bytes_.resize(bits.used());
  }

  void write_block(const Plan::Pair& pair, BitWriter& bits) {
    const Codes::Code& code = pair.dc.any(random_);
    bits.put(code.bits, code.length);
    uint64_t value = random_.below(uint64_t{1} << code.symbol);
    const uint64_t top = uint64_t{1} << code.symbol >> 1;  // 1: above zero
    if (plan_.sign > 0) value |= top;
    if (plan_.sign < 0) value &= ~top;
    bits.put(static_cast<uint32_t>(value), code.symbol);
    for (uint32_t place = 1; place < 64;) place = write_coefficient(pair.ac, place, bits);
  }

  // Returns the next place.
  uint32_t write_coefficient(const Codes& codes, uint32_t place, BitWriter& bits) {
    const Codes::Code* code = &codes.any(random_);
    // A run of zeros must be followed by something.
    const uint32_t needed = (code->symbol >> 4) + (code->symbol == kZeroRun ? 2 : 1);
    if (place + needed > 64 || random_.below(plan_.rarity) == 0) code = &codes.all[codes.end];
    bits.put(code->bits, code->length);
    const uint32_t size = code->symbol & 15;
    if (size == 0 && code->symbol != kZeroRun) return 64;
    bits.put(static_cast<uint32_t>(random_.below(uint64_t{1} << size)), size);
    return place + (code->symbol >> 4) + 1;
  }

  const Plan& plan_;
  Random& random_;
  ByteVector bytes_;
};

// Draws lengths of `count` codes, as long as they fit.
std::array<uint8_t, 16> random_lengths(uint32_t count, Random& random) {
  std::array<uint8_t, 16> bits{};
  uint32_t room = 1;  // codes of the current length, including the one of all ones
  for (uint32_t i = 0; i < 16; ++i) {
    room *= 2;
    uint32_t taken =
        i == 15 ? count : static_cast<uint32_t>(random.below(std::min(count + 1, room)));
    while ((room - taken) << (15 - i) <= count - taken) --taken;
    bits[i] = static_cast<uint8_t>(taken);
    room -= taken;
    count -= taken;
  }
  return bits;
}

// Returns one code of each length from 1 on, or all of 16 bits, or random lengths.
std::array<uint8_t, 16> shape_lengths(uint32_t count, Random& random) {
  std::array<uint8_t, 16> bits{};
  const uint64_t shape = random.below(4);
  if (shape == 0 && count <= 16) {
    std::fill_n(bits.begin(), count, uint8_t{1});
  } else if (shape == 1 && count <= 255) {
    bits[15] = static_cast<uint8_t>(count);
  } else {
    return random_lengths(count, random);
  }
  return bits;
}

// Draws some symbols in any order, each with one code or several, and for AC one that fits at any
// place. With `any`, also symbols that baseline does not allow.
HuffmanTable random_symbols(bool ac, bool any, Random& random) {
  std::vector<uint8_t> symbols;
  for (int symbol = 0; symbol < (ac ? 256 : 16); ++symbol) {
    if (any || is_legal_symbol(ac, symbol)) symbols.push_back(static_cast<uint8_t>(symbol));
  }
  base::shuffle(std::span(symbols), random);
  if (random.below(4) == 0) {
    for (uint8_t& symbol : symbols) symbol = symbols[random.below(symbols.size())];
  }
  const uint64_t most = random.below(3) == 0 ? 3 : std::min<size_t>(symbols.size(), 255);
  symbols.resize(1 + random.below(most));
  if (ac) {
    symbols[random.below(symbols.size())] = random.below(8) == 0 ? kNextPlace : kEndOfBlock;
  }
  HuffmanTable table;
  table.count = static_cast<uint32_t>(symbols.size());
  table.bits = shape_lengths(table.count, random);
  std::ranges::copy(symbols, table.values.begin());
  return table;
}

std::vector<Plan::Part> random_components(size_t quants, size_t pairs, Random& random) {
  constexpr uint32_t kFactors[][6] = {{1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}, {2, 2, 1, 1, 1, 1},
                                      {1, 2, 1, 1, 1, 1}, {4, 2, 1, 1, 1, 1}, {2, 2, 2, 1, 1, 2},
                                      {1, 1, 2, 2, 2, 1}, {1, 3, 1, 1, 1, 3}};
  std::vector<Plan::Part> components(random.below(4) == 0 ? 1 : 3);
  const auto& factors = kFactors[random.below(std::size(kFactors))];
  for (size_t c = 0; c < components.size(); ++c) {
    components[c] = {.across = factors[2 * c],
                     .down = factors[2 * c + 1],
                     .quant = static_cast<uint32_t>(random.below(quants)),
                     .pair = static_cast<uint32_t>(random.below(pairs))};
  }
  return components;
}

Plan random_plan(bool any_symbols, Random& random) {
  Plan plan;
  const auto any_side = [&random] {
    return static_cast<uint32_t>(random.below(2u << random.below(8)));
  };
  plan.width = 1 + any_side();
  plan.height = 1 + any_side();
  plan.quants.resize(1 + random.below(4));
  for (auto& steps : plan.quants) {
    const auto most = [&random] { return std::min(65535u, 1u << random.below(17)); };
    const uint64_t most_ac = most();
    for (uint16_t& step : steps) step = static_cast<uint16_t>(1 + random.below(most_ac));
    steps[0] = static_cast<uint16_t>(1 + random.below(most()));
  }
  for (uint64_t i = 1 + random.below(2); i > 0; --i) {
    plan.pairs.push_back({.dc = Codes(random_symbols(false, any_symbols, random)),
                          .ac = Codes(random_symbols(true, any_symbols, random))});
  }
  plan.components = random_components(plan.quants.size(), plan.pairs.size(), random);
  if (random.below(2) == 0) plan.restart = 1 + static_cast<uint32_t>(random.below(40));
  plan.rarity = 1 + random.below(uint64_t{1} << random.below(7));
  plan.sign = static_cast<int>(random.below(3)) - 1;
  return plan;
}

// Whether libjpeg-turbo runs without SIMD. It reads its environment only once.
bool turbo_is_plain() {
  Plan plan;
  plan.quants.emplace_back().fill(8192);
  HuffmanTable table{.bits = {1}, .values = {1}, .count = 1};
  const Codes one(table);  // DC: a difference of 1
  table.values[0] = kEndOfBlock;
  plan.pairs.push_back({one, Codes(table)});
  plan.sign = 1;
  Random random(22, Purpose::kTest);
  const ByteVector file = StreamFile(plan, random).take();
  base::Pixels out;
  EXPECT_TRUE(TurboDecoder().decode(file, *parse_header(file), {0, 0, 8, 8}, &out).ok());
  return out.rgb[0] == 128;  // 128 + 8192 / 8, in ten bits
}

// Whether this process began without SIMD.
const bool began_plain = std::getenv("JSIMD_FORCENONE") != nullptr;

// Runs the current test in a process of its own.
void run_alone() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const auto& test = *testing::UnitTest::GetInstance()->current_test_info();
  // A shard would leave the test out.
  const std::string command = fmt::format(
      "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX JSIMD_FORCENONE=1 '{}' --gtest_filter={}.{}",
      program, test.test_suite_name(), test.name());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

void compare(int files, bool any_symbols, uint64_t seed) {
  ::setenv("JSIMD_FORCENONE", "1", 1);
  if (!turbo_is_plain()) {
    ASSERT_FALSE(began_plain) << "libjpeg-turbo keeps to SIMD";
    run_alone();  // an earlier test in this process began with SIMD
    return;
  }
  DecodeBatch batch;
  for (int i = 0; i < files && !testing::Test::HasFailure(); ++i) {
    Random random(seed, Purpose::kTest, static_cast<uint32_t>(i));
    const Plan plan = random_plan(any_symbols, random);
    const base::Rect crop = random_region(plan.width, plan.height, random);
    batch.add(StreamFile(plan, random).take(), crop, fmt::format("file {}", i), !any_symbols);
  }
  batch.check();
}

TEST(DecodeUnusual, LegalSymbolsEqualPlainTurbo) { compare(3000, false, 23); }

// Values of more than 10 bits, and everything that libjpeg accepts as an end of block. All kernels
// leave most of these files to libjpeg-turbo.
TEST(DecodeUnusual, AnySymbolsEqualPlainTurbo) { compare(1000, true, 24); }

}  // namespace
}  // namespace forebay::jpeg
