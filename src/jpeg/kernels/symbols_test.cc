// Collecting symbols a block at a time equals collecting them one by one.
#include "jpeg/kernels/symbols.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "jpeg/testing/kernel_samples.h"

namespace forebay::jpeg {
namespace {

using base::Purpose;
using base::Random;

constexpr uint32_t kMcus = 12;

// Makes blocks with any density and size of values, including ordinary ones; some have a
// coefficient at position 63.
Coefficients some_blocks(size_t count, Random& random) {
  Coefficients out;
  out.blocks.resize(count * 64);
  for (size_t block = 0; block < count; ++block) {
    const uint64_t density = random.below(65);
    const uint64_t most = uint64_t{1} << random.below(random.below(8) == 0 ? 13 : 11);
    for (size_t k = 0; k < 64; ++k) {
      if (random.below(64) >= density) continue;
      const auto size = static_cast<int16_t>(random.below(most));
      out.blocks[block * 64 + k] = random.below(2) == 0 ? size : static_cast<int16_t>(-size);
    }
  }
  return out;
}

TEST(Symbols, AreTheSameWithEachKernel) {
  Random random(24, Purpose::kTest);
  size_t fitting = 0;
  for (int i = 0; i < 2000; ++i) {
    Header header;
    header.component_count = 3;
    header.width = kMcus * 8;
    header.height = 8;
    for (Component& component : header.components) component.horizontal = component.vertical = 1;
    const Coefficients blocks = some_blocks(kMcus * 3, random);
    Symbols expected;
    const Status fits = collect_symbols(header, blocks, 5, EntropyKernel::kPortable, &expected);
    for (const EntropyKernel kernel : kernels()) {
      Symbols symbols;
      const Status status = collect_symbols(header, blocks, 5, kernel, &symbols);
      ASSERT_EQ(status.ok(), fits.ok()) << i;
      ASSERT_EQ(symbols.segment_ends, expected.segment_ends) << i;
      ASSERT_EQ(symbols.histograms, expected.histograms) << i;
      ASSERT_TRUE(std::equal(expected.tokens.data(),
                             expected.tokens.data() + expected.segment_ends.back(),
                             symbols.tokens.data()))
          << i;
    }
    fitting += fits.ok() ? 1 : 0;
  }
  EXPECT_GT(fitting, 100u);
  EXPECT_LT(fitting, 1900u);
}

}  // namespace
}  // namespace forebay::jpeg
