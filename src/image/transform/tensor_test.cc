// TensorWriter with every type, layout and flip, compared with a naive loop.
#include "image/transform/tensor.h"

#include <cmath>

#include "base/random.h"
#include "image/testing/image_samples.h"
#include "image/transform/half.h"
#include "jpeg/testing/keep_to.h"

namespace forebay::image {
namespace {

// Rounds to nearest even by looking at both neighbours.
float nearest_bfloat16(float value) {
  const uint32_t down = std::bit_cast<uint32_t>(value) & 0xffff0000u;
  const auto low = std::bit_cast<float>(down);
  const auto high = std::bit_cast<float>(down + 0x10000u);
  const double to_low = std::abs(double{value} - low);
  const double to_high = std::abs(double{high} - value);
  if (to_low != to_high) return to_low < to_high ? low : high;
  return (down >> 16) % 2 == 0 ? low : high;
}

float load_number(const uint8_t* out, size_t index, DType dtype) {
  if (dtype == DType::kUint8) return out[index];
  if (dtype == DType::kFloat32) return base::load_le<float>(out + index * 4);
  const auto bits = base::load_le<uint16_t>(out + index * 2);
  return dtype == DType::kFloat16 ? from_float16(bits) : from_bfloat16(bits);
}

float expected(const TensorOptions& options, uint8_t value, size_t channel) {
  if (options.dtype == DType::kUint8) return value;
  const double mean = options.mean[channel];
  const double std = options.std[channel];
  const auto exact = static_cast<float>((value / 255.0 - mean) / std);
  if (options.dtype == DType::kFloat16) return from_float16(to_float16(exact));  // half_test.cc
  return options.dtype == DType::kFloat32 ? exact : nearest_bfloat16(exact);
}

void write(const TensorWriter& writer, const Pixels& pixels, bool flip, uint8_t* out) {
  base::PixelRows rows;
  rows.pixels = pixels;
  writer.write(rows, flip, out);
}

// `offset` is the distance of the sample from a multiple of 64 bytes.
void check(const TensorOptions& options, const Pixels& pixels, bool flip, size_t offset = 0) {
  const TensorWriter writer(options);
  const size_t bytes = writer.sample_bytes({pixels.width, pixels.height});
  ASSERT_EQ(bytes, pixels.rgb.size() * dtype_bytes(options.dtype));
  base::ByteVector room(64 + offset + bytes + 8, 0xA5);
  const size_t first = -reinterpret_cast<uintptr_t>(room.data()) % 64 + offset;
  const std::span<uint8_t> out = std::span(room).subspan(first, bytes + 8);
  write(writer, pixels, flip, out.data());
  for (size_t y = 0; y < pixels.height; ++y) {
    for (size_t x = 0; x < pixels.width; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        const size_t from = flip ? pixels.width - 1 - x : x;
        const uint8_t value = pixels.rgb[(y * pixels.width + from) * 3 + c];
        const size_t at = options.layout == Layout::kNchw
                              ? (c * pixels.height + y) * pixels.width + x
                              : (y * pixels.width + x) * 3 + c;
        ASSERT_EQ(load_number(out.data(), at, options.dtype), expected(options, value, c));
      }
    }
  }
  for (size_t i = bytes; i < out.size(); ++i) ASSERT_EQ(out[i], 0xA5) << "wrote past the sample";
}

TEST(TensorWriter, EqualsANaiveLoop) {
  for (const DType dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      for (const bool flip : {false, true}) {
        TensorOptions options;
        options.dtype = dtype;
        options.layout = layout;
        for (const uint32_t width : {1u, 3u, 17u, 33u, 64u}) {
          for (const auto best : {jpeg::EntropyKernel::kAvx2, jpeg::EntropyKernel::kAvx512}) {
            jpeg::keep_to(best);
            check(options, make_image(width, 40, width * 2), flip);
          }
        }
      }
    }
  }
}

// Samples that begin at the right place are written past the caches.
TEST(TensorWriter, WritesLargeSamplesAnywhere) {
  const Pixels pixels = make_image(192, 480, 3);
  for (const DType dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const bool flip : {false, true}) {
      for (const size_t offset : {0u, 4u, 32u}) {
        for (const auto best : {jpeg::EntropyKernel::kAvx2, jpeg::EntropyKernel::kAvx512}) {
          jpeg::keep_to(best);
          check({.dtype = dtype}, pixels, flip, offset);
        }
      }
    }
  }
}

TEST(TensorWriter, ErasesThePartAndNothingElse) {
  const Rect part{5, 2, 7, 9};
  const Pixels pixels = make_image(17, 13, 4);
  for (const DType dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      TensorOptions options;
      options.dtype = dtype;
      options.layout = layout;
      const TensorWriter writer(options);
      base::ByteVector out(writer.sample_bytes({17, 13}));
      write(writer, pixels, false, out.data());
      const std::array<float, 3> values{3, 0, 200};  // values that every type can hold
      writer.fill(part, {17, 13}, values, out.data());
      for (size_t i = 0; i < 17 * 13 * 3; ++i) {
        const size_t channel = layout == Layout::kNchw ? i / (17 * 13) : i % 3;
        const size_t place = layout == Layout::kNchw ? i % (17 * 13) : i / 3;
        const size_t x = place % 17;
        const size_t y = place / 17;
        const bool inside = x >= 5 && x < 12 && y >= 2 && y < 11;
        const uint8_t value = pixels.rgb[place * 3 + channel];
        ASSERT_EQ(load_number(out.data(), i, dtype),
                  inside ? values[channel] : expected(options, value, channel));
      }
    }
  }
}

// With mean 0 and std 1/255, the values are about the bytes themselves, and the eight bits of
// bfloat16 hold each of them. With std 1/510 and a mean of -1/510, odd numbers of nine bits are
// ties.
TEST(TensorWriter, RoundsBfloat16TiesToEven) {
  EXPECT_EQ(nearest_bfloat16(257.0F), 256.0F);
  EXPECT_EQ(nearest_bfloat16(259.0F), 260.0F);
  TensorOptions options;
  options.dtype = DType::kBfloat16;
  options.mean = {-2, -2, -2};  // (v / 255 + 2) * 256: at v = 255, 768; at 0, 512
  options.std = {1.0F / 256, 1.0F / 256, 1.0F / 256};
  check(options, make_image(64, 64, 0), false);
  options.mean = {-257, -259, -261};  // ties at v = 0
  options.std = {1, 1, 1};
  check(options, make_image(64, 64, 0), false);
}

// The fast formula is not exact for some of these.
TEST(TensorWriter, IsExactForAnyMeanAndDeviation) {
  base::Random random(3, base::Purpose::kTest);
  const Pixels pixels = make_image(43, 30, 7);
  for (int i = 0; i < 200; ++i) {
    TensorOptions options;
    options.dtype =
        std::array{DType::kFloat32, DType::kBfloat16, DType::kFloat16}[static_cast<size_t>(i) % 3];
    options.layout = i % 2 == 0 ? Layout::kNhwc : Layout::kNchw;
    for (size_t c = 0; c < 3; ++c) {
      const double size = i % 10 == 0 ? 1e6 : 1;
      options.mean[c] = static_cast<float>((random.uniform() - 0.3) * size);
      options.std[c] = static_cast<float>(0.01 + random.uniform());
    }
    check(options, pixels, i % 4 < 2);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace forebay::image
