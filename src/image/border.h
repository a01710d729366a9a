// What is seen of an image through a window that may reach over its sides.
#pragma once

#include "image/decode.h"

namespace forebay::image {

// torchvision's padding_mode: a colour; the last pixel; the image mirrored without, and with its
// last pixel again.
enum class BorderKind : uint8_t { kConstant, kEdge, kReflect, kSymmetric };

struct Border {
  BorderKind kind = BorderKind::kConstant;
  std::array<uint8_t, 3> fill = {0, 0, 0};  // of kConstant, RGB
};

// In an image's pixels; (x, y) may lie left of it and above.
struct Window {
  int64_t x = 0;
  int64_t y = 0;
  Size size;
  bool operator==(const Window&) const = default;
  bool inside(Size image) const {
    return x >= 0 && y >= 0 && x + size.width <= image.width && y + size.height <= image.height;
  }
};

// The part of the image that the window shows, also mirrored; at least one pixel.
Rect part_shown(Size image, const Window& window, BorderKind border);

// Appends which of `side` pixels is shown at each of `count` places from `begin` on, which may lie
// outside; counted from pixel `first` on. -1: none, but a colour.
void append_shown(int64_t begin, uint32_t count, uint32_t side, BorderKind kind, uint32_t first,
                  std::vector<int32_t>* to);

// Makes what the window shows of the rows of the image. A mirrored border is at most as wide as
// its mirror image. Keeps its buffer between images.
class WindowView {
 public:
  void begin(Size image, const Window& window, const Border& border);
  // What is needed of the image.
  const Rect& part() const { return part_; }
  // The window's part of a row of part(); good until the next call.
  base::PlanarRow cut(const base::PlanarRow& row);
  // Calls take(number) for each row of the window that is made of row `y` of the image, which is
  // one of part().
  template <class Take>
  void each_place(uint32_t y, const Take& take) const {
    const int64_t last = int64_t{image_.height} - 1;
    const int64_t end = int64_t{window_.size.height};
    const auto take_at = [&](int64_t row) {
      const int64_t at = row - window_.y;
      if (at >= 0 && at < end) take(static_cast<uint32_t>(at));
    };
    take_at(y);
    switch (border_.kind) {
      case BorderKind::kConstant:
        break;
      case BorderKind::kEdge:
        for (int64_t row = window_.y; y == 0 && row < 0; ++row) take_at(row);
        for (int64_t row = last + 1; y == last && row < window_.y + end; ++row) take_at(row);
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
  // Calls take(number, row) for each row of the window that shows nothing of the image.
  template <class Take>
  void each_empty(const Take& take) {
    if (border_.kind != BorderKind::kConstant) return;
    for (uint32_t at = 0; at < window_.size.height; ++at) {
      const int64_t row = window_.y + at;
      if (row < 0 || row >= image_.height) take(at, empty_row());
    }
  }

 private:
  std::array<uint8_t*, 3> room();
  base::PlanarRow empty_row();

  Size image_;
  Window window_;
  Border border_;
  Rect part_;
  uint32_t begin_ = 0;  // columns [begin, end) of the window lie in the image
  uint32_t end_ = 0;
  std::vector<uint32_t> columns_;  // outside: which of part() is shown
  base::ByteVector row_;
};

}  // namespace forebay::image
