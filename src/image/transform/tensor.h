// From 8-bit RGB to a sample of a batch tensor: flips, normalises, and sets type and layout in one
// pass over rows; also erases parts.
#pragma once

#include <array>

#include "base/random.h"
#include "image/codec/decode.h"

namespace forebay::image {

using base::PlanarRow;

enum class DType : uint8_t { kUint8, kFloat32, kBfloat16, kFloat16 };
enum class Layout : uint8_t { kNchw, kNhwc };

size_t dtype_bytes(DType dtype);

struct TensorOptions {
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNchw;
  // On the scale where a pixel is from 0 to 1. Used only for floating-point types.
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
  std::array<float, 3> std = {0.229F, 0.224F, 0.225F};
};

// The one definition of normalising, which every kernel shares: what each byte value becomes, for
// each channel. For float32, (v / 255 - mean) / std is computed in double and rounded once. For
// bfloat16 and float16, that float32 is rounded to nearest even.
class TensorWriter {
 public:
  explicit TensorWriter(const TensorOptions& options);
  // The number of bytes of a sample of height x width x 3.
  size_t sample_bytes(Size size) const;
  // Writes row `y` of a sample of `size` to its place in the sample at `out`, which has room for
  // sample_bytes(); mirrors it left to right when `flip`. Large samples that begin at a multiple of
  // 64 bytes are written past the caches; other threads may read them after complete().
  void write_row(const PlanarRow& row, uint32_t y, Size size, bool flip, uint8_t* out) const;
  // Ensures that what this thread wrote is in memory before anything that it writes later.
  static void complete();
  // Writes all rows, then calls complete().
  void write(base::Rows& rows, bool flip, uint8_t* out) const;
  // Sets `part` of the sample at `out`, whose size is `size`, to these values of red, green and
  // blue. For uint8, the values are whole numbers from 0 to 255.
  void fill(const Rect& part, Size size, const std::array<float, 3>& values, uint8_t* out) const;
  // Sets `part` to numbers of the standard normal distribution; not for uint8.
  void write_noise(const Rect& part, Size size, const base::Random& random, uint8_t* out) const;

  // numbers(): what each byte value becomes, for each channel. numbers_of(): what these values of
  // red, green and blue become. Both return bits, of which the lowest dtype_bytes() bytes count.
  std::array<uint32_t, 3 * 256> numbers() const;
  std::array<uint32_t, 3> numbers_of(const std::array<float, 3>& values) const;

  // A byte value v becomes (d * scale, rounded once) with d = v - mean. The fields ending in _low
  // hold the difference between the exact factors and float32.
  struct Formula {
    float mean = 0;
    float scale = 0;
    float scale_low = 0;
    float mean_low = 0;  // times scale, negative
  };
  using Formulas = std::array<Formula, 3>;
  // Where a row of a sample is written.
  struct RowTarget {
    uint32_t y;
    Size size;
    bool planar;
    bool flip;

    // Returns the row in the sample: its start in each plane, or its first three elements.
    template <class Out>
    std::array<Out*, 3> in(uint8_t* sample) const {
      auto* const out = reinterpret_cast<Out*>(sample);
      const size_t area = size_t{size.width} * size.height;
      Out* const row = out + size_t{y} * size.width * (planar ? 1 : 3);
      const size_t step = planar ? area : 1;
      return {row, row + step, row + 2 * step};
    }
  };

 private:
  uint16_t to_half(float value) const;
  bool formula_is_exact() const;
  template <class Out, class Make>
  void write_part(const Rect& part, Size size, uint8_t* out, const Make& make) const;
  template <class Make>
  void make_part(const Rect& part, Size size, uint8_t* out, const Make& make) const;

  TensorOptions options_;
  Formulas formulas_;
  bool exact_ = false;  // whether the formulas give the same values as the tables
  std::array<std::array<float, 256>, 3> float32_{};
  std::array<std::array<uint16_t, 256>, 3> half_{};  // for types of 16 bits
};

}  // namespace forebay::image
