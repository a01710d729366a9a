#include "image/tensor.h"

#include <cmath>

namespace forebay::image {
namespace {

// Nearest, halves to even; not for NaN.
uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Identity {
  uint8_t operator[](uint8_t value) const { return value; }
};

// One row to three places, `step` elements between pixels. `flip` is known to the compiler.
template <bool kFlip, class Out, class Table>
void write_row(const uint8_t* rgb, size_t width, const std::array<Table, 3>& tables,
               const std::array<Out*, 3>& to, size_t step) {
  Out* const red = to[0];
  Out* const green = to[1];
  Out* const blue = to[2];
  for (size_t x = 0; x < width; ++x) {
    const uint8_t* const pixel = rgb + (kFlip ? width - 1 - x : x) * 3;
    red[x * step] = tables[0][pixel[0]];
    green[x * step] = tables[1][pixel[1]];
    blue[x * step] = tables[2][pixel[2]];
  }
}

template <class Out, class Table>
void write_all(const Pixels& pixels, bool flip, Layout layout, const std::array<Table, 3>& tables,
               uint8_t* out) {
  const size_t width = pixels.width;
  const size_t area = width * pixels.height;
  auto* const to = reinterpret_cast<Out*>(out);
  for (size_t y = 0; y < pixels.height; ++y) {
    const uint8_t* const rgb = pixels.rgb.data() + y * width * 3;
    Out* const row = to + y * width;
    Out* const row3 = to + y * width * 3;
    const std::array<Out*, 3> planes{row, row + area, row + 2 * area};
    const std::array<Out*, 3> pixel{row3, row3 + 1, row3 + 2};
    if (layout == Layout::kNchw) {
      flip ? write_row<true>(rgb, width, tables, planes, 1)
           : write_row<false>(rgb, width, tables, planes, 1);
    } else {
      flip ? write_row<true>(rgb, width, tables, pixel, 3)
           : write_row<false>(rgb, width, tables, pixel, 3);
    }
  }
}

}  // namespace

size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kFloat32:
      return 4;
    case DType::kBfloat16:
      return 2;
  }
  return 0;
}

TensorWriter::TensorWriter(const TensorOptions& options) : options_(options) {
  for (size_t channel = 0; channel < 3; ++channel) {
    const double mean = options.mean[channel];
    const double std = options.std[channel];
    for (size_t value = 0; value < 256; ++value) {
      const double exact = (static_cast<double>(value) / 255 - mean) / std;
      float32_[channel][value] = static_cast<float>(exact);
      bfloat16_[channel][value] = to_bfloat16(float32_[channel][value]);
    }
  }
}

size_t TensorWriter::sample_bytes(Size size) const {
  return size_t{size.width} * size.height * 3 * dtype_bytes(options_.dtype);
}

void TensorWriter::write(const Pixels& pixels, bool flip, uint8_t* out) const {
  switch (options_.dtype) {
    case DType::kUint8:
      if (options_.layout == Layout::kNhwc && !flip) {
        std::memcpy(out, pixels.rgb.data(), pixels.rgb.size());
        return;
      }
      return write_all<uint8_t>(pixels, flip, options_.layout, std::array<Identity, 3>{}, out);
    case DType::kFloat32:
      return write_all<float>(pixels, flip, options_.layout, float32_, out);
    case DType::kBfloat16:
      return write_all<uint16_t>(pixels, flip, options_.layout, bfloat16_, out);
  }
}

// All types have zero bytes for 0. NHWC is one plane of pixels of three elements.
void TensorWriter::erase(const Rect& part, Size size, uint8_t* out) const {
  FOREBAY_CHECK(part.inside(size.width, size.height));
  const bool planar = options_.layout == Layout::kNchw;
  const size_t pixel = dtype_bytes(options_.dtype) * (planar ? 1 : 3);
  for (size_t plane = 0; plane < (planar ? 3 : 1); ++plane) {
    for (size_t y = part.y; y < size_t{part.y} + part.height; ++y) {
      const size_t first = (plane * size.height + y) * size.width + part.x;
      std::memset(out + first * pixel, 0, part.width * pixel);
    }
  }
}

}  // namespace forebay::image
