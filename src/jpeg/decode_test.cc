// The decoder's kernels give libjpeg-turbo's pixels, and the same pixels as each other.
// decode_sizes_test.cc covers all sizes and subsamplings, decode_unusual_test.cc files that no
// encoder makes.
#include "jpeg/decode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "jpeg/kernels/stuffing.h"
#include "jpeg/region_batch.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/decode_batch.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/keep_to.h"
#include "jpeg/turbo_decode.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Pixels;
using base::Purpose;
using base::Random;
using base::Rect;

// One decoder for each kernel, and libjpeg-turbo.
struct Decoders {
  struct Ours {
    explicit Ours(EntropyKernel kernel)
        : decoder({.kernel = kernel, .turbo_where_faster = false}), region_batch(kernel) {}
    Decoder decoder;
    RegionBatch region_batch;
  };
  std::vector<std::unique_ptr<Ours>> ours;
  TurboDecoder turbo;
  Pixels expected;
  Pixels out;

  Decoders() {
    for (const EntropyKernel kernel : kernels()) ours.push_back(std::make_unique<Ours>(kernel));
  }

  // Checks that our own code decodes the file, and that pixels equal libjpeg-turbo's for `region`.
  void check(Bytes file, const Rect& region, uint32_t scale = 1) {
    const Header header = *parse_header(file);
    ASSERT_TRUE(turbo.decode(file, header, region, &expected, scale).ok());
    const auto scan = read_scan(file, header, scale);
    ASSERT_TRUE(scan);
    for (const auto& each : ours) {
      each->region_batch.begin();
      ASSERT_EQ(each->region_batch.add(*scan, file, region, true), RegionBatch::Added::kYes);
      each->region_batch.run();
      ASSERT_TRUE(each->region_batch.good(0));
      ASSERT_TRUE(decode(each->decoder, {file, header, region, scale}, &out).ok());
      ASSERT_TRUE(out.rgb == expected.rgb);
    }
  }
};

TEST(DecodeKernels, EqualTurboOnRewrittenImages) {
  Decoders decoders;
  Random random(12, Purpose::kTest);
  for (int i = 0; i < 60; ++i) {
    const auto& factors = kLumaFactors[random.below(4)];
    const Sample sample{.width = 64 + static_cast<uint32_t>(random.below(300)),
                        .height = 64 + static_cast<uint32_t>(random.below(300)),
                        .components = i % 6 == 0 ? 1 : 3,
                        .across = factors[0],
                        .down = factors[1],
                        .quality = 40 + static_cast<int>(random.below(61)),
                        .progressive = i % 3 == 0};
    SCOPED_TRACE(sample.name());
    RewriteOptions options;
    options.tables = static_cast<TableMode>(i % 3);
    if (i % 4 == 0) options.restart_interval = static_cast<uint32_t>(random.below(40));
    const auto file = rewrite(make_jpeg(sample, random.next_u64()), options);
    ASSERT_TRUE(file);
    decoders.check(file->file, {0, 0, sample.width, sample.height});
    for (int crop = 0; crop < 4; ++crop) {
      decoders.check(file->file, random_region(sample.width, sample.height, random));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Chroma factors for luma of 2 x 2: chroma is finer in one direction, or differs by component.
constexpr decltype(Sample::chroma) kChromaFactors[] = {
    {{{1, 2}, {1, 2}}}, {{{2, 1}, {1, 2}}}, {{{2, 2}, {1, 1}}}};

void compare_scales() {
  Decoders decoders;
  Random random(22, Purpose::kTest);
  for (int i = 0; i < 1500; ++i) {
    const auto& factors = kLumaFactors[static_cast<size_t>(i) % std::size(kLumaFactors)];
    Sample sample{.width = 1 + static_cast<uint32_t>(random.below(200)),
                  .height = 1 + static_cast<uint32_t>(random.below(200)),
                  .components = random.below(6) == 0 ? 1 : 3,
                  .across = factors[0],
                  .down = factors[1],
                  .quality = 1 + static_cast<int>(random.below(100)),
                  .restart = static_cast<int>(random.below(7))};
    sample.rgb = sample.components == 3 && random.below(6) == 0;
    if (i % 5 == 0) {
      sample.down = 2;
      sample.across = 2;
      sample.chroma = kChromaFactors[random.below(std::size(kChromaFactors))];
    }
    const uint32_t scale = 2u << random.below(3);
    SCOPED_TRACE(fmt::format("{} scale {}", sample.name(), scale));
    const ByteVector file = make_jpeg(sample, random.next_u64());
    const uint32_t width = divide_up(sample.width, scale);
    const uint32_t height = divide_up(sample.height, scale);
    decoders.check(file, {0, 0, width, height}, scale);
    for (int crop = 0; crop < 3; ++crop) {
      decoders.check(file, random_region(width, height, random), scale);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Images that are left to libjpeg-turbo are scaled too, and their regions equal the whole.

TEST(DecodeKernels, EqualTurboAtEveryScale) {
  for (const EntropyKernel kernel : {EntropyKernel::kAvx2, EntropyKernel::kAvx512}) {
    keep_to(kernel);
    compare_scales();
  }
}

TEST(Decode, ScaledRegionsEqualTheWholeCut) {
  Random random(23, Purpose::kTest);
  Decoder decoder;
  for (int i = 0; i < 200; ++i) {
    const auto& factors = kLumaFactors[random.below(4)];
    const Sample sample{.width = 1 + static_cast<uint32_t>(random.below(150)),
                        .height = 1 + static_cast<uint32_t>(random.below(150)),
                        .components = i % 5 == 0 ? 4 : 3,
                        .across = factors[0],
                        .down = factors[1],
                        .progressive = i % 2 == 0};
    const uint32_t scale = 2u << random.below(3);
    SCOPED_TRACE(fmt::format("{} scale {}", sample.name(), scale));
    const ByteVector file = make_jpeg(sample, random.next_u64());
    const Header header = *parse_header(file);
    const Rect all{0, 0, divide_up(sample.width, scale), divide_up(sample.height, scale)};
    const Rect region = random_region(all.width, all.height, random);
    Pixels whole;
    Pixels part;
    ASSERT_TRUE(decode(decoder, {file, header, all, scale}, &whole).ok());
    ASSERT_TRUE(decode(decoder, {file, header, region, scale}, &part).ok());
    whole.crop(region);
    ASSERT_TRUE(whole.rgb == part.rgb);
  }
}

TEST(Decode, RefusesOtherScalesAndRegionsOutsideTheScaledImage) {
  const ByteVector file = make_jpeg({.width = 33, .height = 20});
  const Header header = *parse_header(file);
  Decoder decoder;
  Pixels out;
  EXPECT_TRUE(decode(decoder, {file, header, {0, 0, 17, 10}, 2}, &out).ok());
  EXPECT_EQ(decode(decoder, {file, header, {0, 0, 18, 10}, 2}, &out).code(), base::Code::kInvalid);
  for (const uint32_t scale : {0u, 3u, 16u}) {
    EXPECT_EQ(decode(decoder, {file, header, {0, 0, 1, 1}, scale}, &out).code(),
              base::Code::kInvalid);
  }
}

// These images are large enough to be split.
TEST(DecodeKernels, EqualTurboOnLargeImagesWithoutRestartMarkers) {
  Decoders decoders;
  Random random(19, Purpose::kTest);
  for (int i = 0; i < 40; ++i) {
    const auto& factors = kLumaFactors[random.below(std::size(kLumaFactors))];
    Sample sample{.width = 150 + static_cast<uint32_t>(random.below(500)),
                  .height = 150 + static_cast<uint32_t>(random.below(400)),
                  .components = i % 6 == 0 ? 1 : 3,
                  .across = factors[0],
                  .down = factors[1],
                  .quality = 30 + static_cast<int>(random.below(71)),
                  .restart = i % 4 == 3 ? 65 + static_cast<int>(random.below(500)) : 0};
    if (i % 10 == 9) sample.plain = {10, 200, 90};
    SCOPED_TRACE(sample.name());
    const ByteVector file = make_jpeg(sample, random.next_u64());
    decoders.check(file, {0, 0, sample.width, sample.height});
    for (int crop = 0; crop < 4; ++crop) {
      decoders.check(file, random_region(sample.width, sample.height, random));
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(DecodeKernels, EqualTurboWithAnyHuffmanTables) {
  Decoders decoders;
  Random random(13, Purpose::kTest);
  for (int i = 0; i < 60; ++i) {
    const Sample sample{.width = 90, .height = 70, .across = 1 + i % 2, .quality = 60 + i % 40};
    const ByteVector plain = make_jpeg(sample, random.next_u64());
    const ByteVector file =
        with_tables(plain, i % 5, [&](bool ac) { return random_table(ac, random); });
    decoders.check(file, {0, 0, 90, 70});
    decoders.check(file, random_region(90, 70, random));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// All codes except the first have 13 bits: too long for a lookup, and not after five ones.
TEST(DecodeKernels, EqualTurboWithLongCodesOfAnyPrefix) {
  Decoders decoders;
  const auto long_codes = [](bool ac) {
    HuffmanTable table;
    const HuffmanTable all = optimal_table([&] {
      Histogram histogram{};
      for (int symbol = 0; symbol < 256; ++symbol) {
        histogram[static_cast<size_t>(symbol)] = is_legal_symbol(ac, symbol) ? 1 : 0;
      }
      return histogram;
    }());
    table.count = all.count;
    table.values = all.values;
    table.bits[0] = 1;
    table.bits[12] = static_cast<uint8_t>(all.count - 1);
    return table;
  };
  for (const int restart : {0, 3}) {
    const ByteVector plain = make_jpeg({.width = 90, .height = 70, .across = 2, .quality = 90});
    const ByteVector file = with_tables(plain, restart, long_codes);
    decoders.check(file, {0, 0, 90, 70});
    decoders.check(file, {17, 30, 40, 11});
  }
}

// The table has one symbol: difference 0, and end of block.
TEST(DecodeKernels, EqualTurboWithTablesOfOneSymbol) {
  Decoders decoders;
  const ByteVector grey = make_jpeg({.width = 90, .height = 70, .plain = {128, 128, 128}});
  const ByteVector file = with_tables(grey, 3, [](bool) { return optimal_table({}); });
  decoders.check(file, {0, 0, 90, 70});
  decoders.check(file, {33, 8, 20, 50});
}

TEST(DecodeKernels, ManyImagesAtOnceAreEachAsAlone) {
  Random random(15, Purpose::kTest);
  std::vector<ByteVector> files;
  for (int i = 0; i < 150; ++i) {
    const uint32_t side = 8 + static_cast<uint32_t>(random.below(40));
    ByteVector file = make_jpeg({.width = side,
                                 .height = 32,
                                 .components = i % 7 == 0 ? 1 : 3,
                                 .across = 1 + i % 2,
                                 .quality = 50 + i % 50,
                                 .progressive = i % 31 == 0,
                                 .restart = i % 5 == 0 ? 1 : 0},
                                random.next_u64());
    // Some files have tables of their own, some are damaged.
    if (i % 3 == 0) file = with_tables(file, 0, [&](bool ac) { return random_table(ac, random); });
    if (i % 13 == 5) file.erase(file.end() - 9, file.end());
    files.push_back(file);
  }
  Decoder alone;
  for (const EntropyKernel kernel : kernels()) {
    Decoder decoder({.kernel = kernel, .turbo_where_faster = false});
    std::vector<RegionRequest> requests;
    for (const ByteVector& file : files) {
      const Header header = *parse_header(file);
      requests.push_back({file, header, {0, 0, header.width, header.height}});
    }
    std::vector<int> taken(files.size());
    decoder.decode(requests, [&](size_t i, const Status& status, base::Rows& rows) {
      ++taken[i];
      Pixels expected;
      EXPECT_EQ(status.code(), alone.decode(files[i], std::nullopt, &expected).code()) << i;
      EXPECT_EQ(status.ok(), i % 13 != 5) << i;
      if (status.ok()) {
        EXPECT_TRUE(interleaved(rows) == expected.rgb) << i;
      }
    });
    EXPECT_EQ(std::ranges::count(taken, 1), std::ssize(taken));
  }
}

// Places 0xFF at different positions relative to the vectors' borders, with different bytes after
// it.
TEST(Stuffing, EqualsAByteByByteCopy) {
  Random random(18, Purpose::kTest);
  for (int i = 0; i < 3000; ++i) {
    ByteVector bits(random.below(300));
    const auto rarity = static_cast<uint64_t>(1 + i % 40);
    for (uint8_t& byte : bits) byte = random.below(rarity) == 0 ? 0xFF : 0x11;
    for (size_t at = 0; at + 1 < bits.size(); ++at) {
      if (bits[at] == 0xFF && random.below(8) != 0) bits[++at] = 0;
    }
    const size_t start = bits.empty() ? 0 : random.below(bits.size());
    ByteVector expected;
    size_t at = start;
    for (; at + 1 < bits.size() && (bits[at] != 0xFF || bits[at + 1] == 0); ++at) {
      expected.push_back(bits[at]);
      if (bits[at] == 0xFF) ++at;
    }
    const bool found = at + 1 < bits.size();
    for (const EntropyKernel kernel : kernels()) {
      ByteVector out(bits.size() + kUnstuffedPadding, 0xA5);
      const Unstuffed copied = copy_unstuffed(bits, start, kernel, out.data());
      ASSERT_EQ(copied.marker, found ? at : bits.size()) << i;
      if (found) {
        out.resize(copied.bytes);
        ASSERT_EQ(out, expected) << i;
      }
    }
    ASSERT_EQ(find_marker(bits, start), found ? at : bits.size()) << i;
  }
}

// Our code reports damage for the same files as libjpeg-turbo. Where damage leaves a valid file,
// its coefficients may exceed what libjpeg-turbo's SIMD code and its plain code agree on. Our
// kernels agree with each other, and the fuzzer (tests/fuzz/jpeg_header.cc) compares them with the
// plain code.
TEST(DecodeKernels, JudgeDamageAsTurboDoes) {
  // In each image. All of them take over a minute under AddressSanitizer.
  const size_t positions = std::getenv("FOREBAY_TEST_ALL") != nullptr ? 2000 : 500;
  Decoders decoders;
  Random random(14, Purpose::kTest);
  size_t refused = 0;
  size_t taken = 0;
  const Sample small{.width = 60, .height = 40, .across = 2, .down = 2};
  Sample restarts = small;
  restarts.restart = 2;
  const Sample split{.width = 320, .height = 240};
  for (const Sample& sample : {small, restarts, split}) {
    const ByteVector good = make_jpeg(sample);
    const uint32_t scan = parse_header(good)->header_bytes;
    const size_t step = 1 + good.size() / positions;
    for (size_t at = scan; at < good.size(); at += step) {
      ByteVector bad = good;
      bad[at] = static_cast<uint8_t>(bad[at] ^ (1u << random.below(8)));
      const Rect all{0, 0, sample.width, sample.height};
      const bool fine = decoders.turbo.decode(bad, *parse_header(bad), all, &decoders.out).ok();
      ++(fine ? taken : refused);
      for (const auto& ours : decoders.ours) {
        ASSERT_EQ(ours->decoder.decode(bad, std::nullopt, &decoders.out).ok(), fine) << at;
        if (&ours == &decoders.ours.front()) decoders.expected = decoders.out;
        ASSERT_TRUE(!fine || decoders.out.rgb == decoders.expected.rgb) << at;
        if (at % 4 != 0) continue;
        const Rect all_scaled{0, 0, divide_up(all.width, 4), divide_up(all.height, 4)};
        const RegionRequest scaled{bad, *parse_header(bad), all_scaled, 4};
        ASSERT_EQ(decode(ours->decoder, scaled, &decoders.out).ok(), fine) << at;
      }
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(taken, 100u);
}

// Regression: a product of exactly -32768, whose absolute value 16 bits cannot hold, gave wrong
// pixels.
TEST(Transform, TakesTheLeastProductForWhatItIs) {
  std::array<uint16_t, 64> quant{};
  quant.fill(16);
  std::array<std::array<int16_t, 64>, 2> coefficients{};
  for (auto& block : coefficients) {
    block[0] = -2048;
    block[2] = 100;
    block[14] = 362;
  }
  std::array<std::array<uint8_t, 64>, 2> samples{};
  const Dequantiser dequantiser = make_dequantiser(quant);
  transform_row({.coefficients = coefficients[0].data(),
                 .count = 1,
                 .samples = samples[0].data(),
                 .stride = 8},
                dequantiser);
  transform_plain(coefficients[1].data(), dequantiser, 8, samples[1].data(), 8);
  EXPECT_EQ(samples[0], samples[1]);
}

// SIMD and plain arithmetic agree on ordinary blocks, and on blocks that no encoder makes.
void compare_transforms() {
  Random random(16, Purpose::kTest);
  constexpr size_t kBlocks = 11;  // not a multiple of the blocks in a vector
  constexpr size_t kStride = 8 * kBlocks + 3;
  for (int i = 0; i < 12000; ++i) {
    const uint32_t side = 8u >> random.below(4);
    std::array<uint16_t, 64> quant{};
    const uint64_t most_quant = uint64_t{1} << random.below(17);
    for (uint16_t& step : quant) step = static_cast<uint16_t>(1 + random.below(most_quant) % 65535);
    Dequantiser dequantiser = make_dequantiser(quant);
    std::vector<int16_t> coefficients(3 * kBlocks * 64);
    const size_t count = 1 + random.below(kBlocks);
    const int64_t most = int64_t{1} << random.below(16);
    const uint64_t share = 1 + random.below(20);
    // Some blocks have low frequencies only.
    const auto used = std::array<size_t, 5>{1, 9, 10, 11, 64}[random.below(5)];
    for (size_t at = 0; at < coefficients.size(); ++at) {
      if (at % 64 >= used) continue;
      const int64_t value =
          static_cast<int64_t>(random.below(static_cast<uint64_t>(2 * most))) - most;
      coefficients[at] = static_cast<int16_t>(random.below(share) == 0 ? value : 0);
    }
    // These exceed what codes can express, except for DC, whose differences are summed.
    if (most > 2048) dequantiser.may_overflow = true;
    for (size_t at = 0; i % 4 == 0 && at < coefficients.size(); at += 64) {
      coefficients[at] = static_cast<int16_t>(random.next_u32());
    }
    std::vector<int16_t> copy = coefficients;
    std::vector<uint8_t> samples(8 * kStride);
    std::vector<uint8_t> expected(8 * kStride);
    // MCUs of one block; or MCUs of two, with a third block between them that belongs to another
    // row.
    const size_t across = 1 + random.below(2);
    const size_t mcu_stride = across == 1 ? 64 : 3 * 64;
    for (size_t block = 0; block < count; ++block) {
      const size_t from = block / across * mcu_stride + block % across * 64;
      transform_plain(copy.data() + from, dequantiser, side, expected.data() + block * side,
                      kStride);
    }
    transform_row({.coefficients = coefficients.data(),
                   .across = static_cast<uint32_t>(across),
                   .mcu_stride = mcu_stride,
                   .count = static_cast<uint32_t>(count),
                   .side = side,
                   .samples = samples.data(),
                   .stride = kStride},
                  dequantiser);
    ASSERT_TRUE(samples == expected) << i;
    ASSERT_TRUE(coefficients == copy) << i;  // zeros in place of the blocks
  }
}

TEST(Transform, EqualsPlainArithmeticForAnyCoefficients) {
  for (const EntropyKernel kernel : {EntropyKernel::kAvx2, EntropyKernel::kAvx512}) {
    keep_to(kernel);
    compare_transforms();
  }
}

}  // namespace
}  // namespace forebay::jpeg
