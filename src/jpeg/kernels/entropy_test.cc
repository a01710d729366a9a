// The kernels equal decoding symbol by symbol, on random bits. Most streams are damaged somewhere,
// and every kernel must notice.
#include "jpeg/kernels/entropy.h"

#include <gtest/gtest.h>

#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/kernel_samples.h"

namespace forebay::jpeg {
namespace {

using base::Purpose;
using base::Random;

// Makes a table in which small runs, small values and ends of blocks are frequent, like in
// photographs, or all symbols are equally frequent.
HuffmanTable some_table(bool ac, Random& random) {
  if (random.below(3) == 0) return random_table(ac, random);
  Histogram histogram{};
  for (int symbol = 0; symbol < 256; ++symbol) {
    if (!is_legal_symbol(ac, symbol)) continue;
    const uint64_t size = static_cast<uint64_t>(symbol) % 16 + static_cast<uint64_t>(symbol) / 16;
    histogram[static_cast<size_t>(symbol)] = static_cast<uint32_t>(
        1 + random.below(1 + (uint64_t{1} << 20 >> std::min<uint64_t>(size * 2, 20))));
  }
  return optimal_table(histogram);
}

// Streams of one slice each, all with the same tables.
class Slices : private StreamSource {
 public:
  explicit Slices(Random& random) {
    for (uint32_t pair = 0; pair < 2; ++pair) {
      for (uint32_t ac = 0; ac < 2; ++ac) add_table(pair, ac != 0, some_table(ac != 0, random));
    }
    // Repeats the pairs of the blocks of an MCU.
    const auto mcu = 1 + static_cast<uint32_t>(random.below(6));
    const auto pairs = static_cast<uint32_t>(random.next_u32());
    const uint32_t longest = kSliceBlocks / mcu * mcu;
    for (uint32_t b = 0; b < longest; ++b) tables_.pairs |= (pairs >> b % mcu & 1) << b;
    tables_.complete(longest);
    streams_.resize(1 + random.below(70));
    for (Stream& stream : streams_) {
      auto& bytes = data_.emplace_back(random.below(300) + kStreamPadding);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next_u32());
      stream.data = bytes.data();
      stream.bits = (bytes.size() - kStreamPadding) * 8;
      stream.bit = random.below(8);
      stream.tables = &tables_;
      stream.blocks = mcu * static_cast<uint32_t>(1 + random.below(longest / mcu));
    }
  }

  struct Result {
    bool bad = false;
    uint64_t bit = 0;
    std::vector<int16_t> out;
    bool operator==(const Result&) const = default;
  };

  std::vector<Result> one_by_one() const {
    std::vector<Result> results;
    for (Stream stream : streams_) {
      std::vector<int16_t> out(kSliceStride);
      stream.out = out.data();
      const auto end = static_cast<int32_t>(stream.blocks * 64);
      int32_t position = 0;
      while (position >= 0 && position < end) {
        position = decode_slow(stream, static_cast<uint32_t>(position), &stream.bit);
      }
      stream.bad = position < 0 || stream.bit > stream.bits;
      results.push_back(result_of(stream));
    }
    return results;
  }

  std::vector<Result> all_at_once(EntropyKernel kernel, bool known) {
    coefficients_.assign(kSlicePadding + streams_.size() * kSliceStride, 0);
    decoded_ = streams_;
    for (size_t i = 0; i < decoded_.size(); ++i) {
      decoded_[i].out = coefficients_.data() + kSlicePadding + i * kSliceStride;
    }
    next_ = 0;
    decode_slices(KernelSelection(kernel), {decoded_.size(), known ? &tables_ : nullptr}, arena_,
                  coefficients_.data(), *this);
    std::vector<Result> results;
    for (const Stream& stream : decoded_) results.push_back(result_of(stream));
    return results;
  }

 private:
  // The slice of a damaged stream has no meaning.
  static Result result_of(const Stream& stream) {
    if (stream.bad) return {true, 0, {}};
    const size_t count = size_t{stream.blocks} * 64 + kSlicePadding;
    return {false, stream.bit, {stream.out, stream.out + count}};
  }

  void add_table(uint32_t pair, bool ac, const HuffmanTable& table) {
    const uint32_t number = pair * 2 + (ac ? 1 : 0);
    const uint32_t slot = LookupArena::kFirstFree + number * kTableLookups;
    build_lookups(ac, table, arena_.of_table(slot));
    if (ac) {
      tables_.slots[pair * 4 + StreamTables::kAcChained] = static_cast<uint8_t>(slot);
      tables_.slots[pair * 4 + StreamTables::kAcSingle] = static_cast<uint8_t>(slot + 1);
    } else {
      tables_.slots[pair * 4 + StreamTables::kDc] = static_cast<uint8_t>(slot);
    }
    canonical_[number] = canonical_table(table);
    tables_.canonical[number] = &canonical_[number];
  }

  Stream* next(Stream*) override { return next_ == decoded_.size() ? nullptr : &decoded_[next_++]; }

  LookupArena arena_;
  std::array<CanonicalTable, 4> canonical_;
  StreamTables tables_;
  std::vector<std::vector<uint8_t>> data_;
  std::vector<Stream> streams_;
  std::vector<Stream> decoded_;
  std::vector<int16_t> coefficients_;
  size_t next_ = 0;
};

TEST(EntropyKernels, EqualOneSymbolAfterTheOtherOnAnyBits) {
  Random random(23, Purpose::kTest);
  size_t good = 0;
  size_t bad = 0;
  for (int i = 0; i < 400; ++i) {
    Slices slices(random);
    const auto expected = slices.one_by_one();
    for (const auto& result : expected) ++(result.bad ? bad : good);
    for (const EntropyKernel kernel : kernels()) {
      for (const bool known : {true, false}) {
        const auto results = slices.all_at_once(kernel, known);
        for (size_t s = 0; s < results.size(); ++s) {
          ASSERT_TRUE(results[s] == expected[s])
              << i << ", stream " << s << ", kernel " << static_cast<int>(kernel) << ", " << known;
        }
      }
    }
  }
  EXPECT_GT(good, 1000u);
  EXPECT_GT(bad, 1000u);
}

}  // namespace
}  // namespace forebay::jpeg
