// Resize of 8-bit RGB, equal to torchvision v2's (PyTorch's uint8 kernels): antialiased bilinear
// and bicubic with int16 weights, horizontal then vertical, uint8 between; nearest.
#pragma once

#include "image/decode.h"

namespace forebay::image {

enum class Interpolation : uint8_t { kBilinear, kBicubic, kNearest };

// Keeps its weights and buffers between images. One thread at a time.
class Resizer {
 public:
  explicit Resizer(Interpolation interpolation = Interpolation::kBilinear);
  ~Resizer();
  Resizer(Resizer&&) noexcept;
  Resizer& operator=(Resizer&&) noexcept;

  // Resizes `from` to `size`, then keeps `kept` of the result (inside `size`); only what is kept is
  // computed. `from` is not empty, no side above base::kImageSideMax.
  void resize(const Pixels& from, Size size, const Rect& kept, Pixels* to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::image
