// What a viewport shows of an image, if it may extend beyond the image's sides: torchvision's
// padding modes.
#pragma once

#include "image/codec/decode.h"

namespace forebay::image {

// The values of torchvision's padding_mode: a colour; the last pixel; the image mirrored without
// repeating its last pixel, and mirrored with repeating it.
enum class BorderKind : uint8_t { kConstant, kEdge, kReflect, kSymmetric };

struct Border {
  BorderKind kind = BorderKind::kConstant;
  std::array<uint8_t, 3> fill = {0, 0, 0};  // RGB, for kConstant
  uint8_t mask_fill = 0;                    // the label there in a map of labels
};

// A rectangle in the pixels of an image. It may begin left of the image or above it, and end beyond
// it.
struct Viewport {
  int64_t x = 0;
  int64_t y = 0;
  Size size;
  bool operator==(const Viewport&) const = default;
  bool inside(Size image) const {
    return x >= 0 && y >= 0 && x + size.width <= image.width && y + size.height <= image.height;
  }
};

// Returns the part of the image that the viewport shows, directly or mirrored; at least one pixel.
Rect part_shown(Size image, const Viewport& viewport, BorderKind border);

// Appends a number for each of `count` positions from `begin` on, which may lie outside the image:
// the number of the pixel that is shown there, of the image's `side` pixels, counted from pixel
// `first`; or -1 for the colour of kConstant.
void append_shown(int64_t begin, uint32_t count, uint32_t side, BorderKind kind, uint32_t first,
                  std::vector<int32_t>* to);

// Makes the rows of a viewport from the rows of the image. A mirrored border is at most as wide as
// the image. Keeps its buffer between images.
class ViewportRows {
 public:
  void begin(Size image, const Viewport& viewport, const Border& border);
  // The part of the image that is needed.
  const Rect& part() const { return part_; }
  // Returns what the viewport shows of a row of part(). It stays valid until the next call.
  base::PlanarRow cut(const base::PlanarRow& row);
  // Calls take(number) for each row of the viewport that is made from row `y` of the image, which
  // must be a row of part().
  template <class Take>
  void each_place(uint32_t y, const Take& take) const {
    const int64_t last = int64_t{image_.height} - 1;
    const int64_t end = int64_t{viewport_.size.height};
    const auto take_at = [&](int64_t row) {
      const int64_t at = row - viewport_.y;
      if (at >= 0 && at < end) take(static_cast<uint32_t>(at));
    };
    take_at(y);
    switch (border_.kind) {
      case BorderKind::kConstant:
        break;
      case BorderKind::kEdge:
        for (int64_t row = viewport_.y; y == 0 && row < 0; ++row) take_at(row);
        for (int64_t row = last + 1; y == last && row < viewport_.y + end; ++row) take_at(row);
        break;
      case BorderKind::kReflect:
        if (y > 0) take_at(-int64_t{y});
        if (y < last) take_at(2 * last - y);
        break;
      case BorderKind::kSymmetric:
        take_at(-1 - int64_t{y});
        take_at(2 * last + 1 - y);
        break;
    }
  }
  // Calls take(number, row) for each row of the viewport that shows nothing of the image.
  template <class Take>
  void each_empty(const Take& take) {
    if (border_.kind != BorderKind::kConstant) return;
    for (uint32_t at = 0; at < viewport_.size.height; ++at) {
      const int64_t row = viewport_.y + at;
      if (row < 0 || row >= image_.height) take(at, empty_row());
    }
  }

 private:
  std::array<uint8_t*, 3> room();
  base::PlanarRow empty_row();

  Size image_;
  Viewport viewport_;
  Border border_;
  Rect part_;
  uint32_t begin_ = 0;  // columns [begin, end) of the viewport lie in the image
  uint32_t end_ = 0;
  std::vector<uint32_t> columns_;  // for columns outside: which column of part() is shown
  base::ByteVector row_;
};

}  // namespace forebay::image
