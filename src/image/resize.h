// Antialiased bilinear resize of 8-bit RGB, equal to torchvision v2's (PyTorch's uint8 kernel):
// int16 weights, horizontal then vertical, uint8 between.
#pragma once

#include "image/decode.h"

namespace forebay::image {

// Keeps its weights and buffers between images. One thread at a time.
class Resizer {
 public:
  Resizer();
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
