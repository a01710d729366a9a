// Resizes 8-bit RGB with the same result as torchvision v2 (PyTorch's uint8 kernels): antialiased
// bilinear and bicubic with int16 weights, horizontal then vertical, uint8 in between; and nearest.
#pragma once

#include <functional>

#include "image/codec/decode.h"

namespace forebay::image {

using base::PlanarRow;

// kNearest and kNearestExact are PyTorch's "nearest" and "nearest-exact": of the second, the middle
// of a pixel of the result lies in the pixel that it shows.
enum class Interpolation : uint8_t { kBilinear, kBicubic, kNearest, kNearestExact };
inline bool is_nearest(Interpolation interpolation) {
  return interpolation == Interpolation::kNearest || interpolation == Interpolation::kNearestExact;
}

// A part of an image, in its pixels. The sides may lie inside a pixel.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};
inline Box whole(const base::Rows& rows) {
  return {.width = static_cast<double>(rows.width()), .height = static_cast<double>(rows.height())};
}

// Keeps its weights and buffers between images. Used by one thread at a time.
class Resizer {
 public:
  explicit Resizer(Interpolation interpolation = Interpolation::kBilinear);
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // Receives an output row of kept.width pixels. Its number counts from kept.y. The row stays valid
  // until the call returns.
  using TakeRow = std::function<void(uint32_t y, const PlanarRow& row)>;
  // Resizes `box` of `from` to `size`, then keeps `kept` of the result (inside `size`). Only what
  // is kept is computed, row by row from the top. Pixels of `from` outside the box count if a
  // filter reaches them. No side of `from` is above base::kImageSideMax.
  void resize(base::Rows& from, const Box& box, Size size, const Rect& kept, const TakeRow& take);
  // Does the same, and writes the rows to `to`.
  void resize(base::Rows& from, const Box& box, Size size, const Rect& kept, Pixels* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::image
