// Resize of 8-bit RGB, equal to torchvision v2's (PyTorch's uint8 kernels): antialiased bilinear
// and bicubic with int16 weights, horizontal then vertical, uint8 between; nearest.
#pragma once

#include <functional>

#include "image/decode.h"

namespace forebay::image {

using base::PlanarRow;

enum class Interpolation : uint8_t { kBilinear, kBicubic, kNearest };

// Part of an image, in its pixels; a border may lie inside one.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};
inline Box whole(const base::Rows& rows) {
  return {.width = static_cast<double>(rows.width()), .height = static_cast<double>(rows.height())};
}

// Keeps its weights and buffers between images. One thread at a time.
class Resizer {
 public:
  explicit Resizer(Interpolation interpolation = Interpolation::kBilinear);
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // What becomes of an output row, kept.width pixels; its number counts from kept.y. It is good
  // until the call returns.
  using TakeRow = std::function<void(uint32_t y, const PlanarRow& row)>;
  // Resizes `box` of `from` to `size`, then keeps `kept` of the result (inside `size`); only what
  // is kept is computed, row by row from the top. Pixels of `from` outside the box count where a
  // filter reaches them. No side of `from` is above base::kImageSideMax.
  void resize(base::Rows& from, const Box& box, Size size, const Rect& kept, const TakeRow& take);
  // To pixels.
  void resize(base::Rows& from, const Box& box, Size size, const Rect& kept, Pixels* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::image
