// Mirrors and turns stored pixels into the image as it is shown. orientation_tag.h reads the
// orientation.
#pragma once

#include "base/pixels.h"

namespace forebay::image {

// How shown pixels are made from stored pixels: they are mirrored first, then transposed (rows
// become columns).
struct Orientation {
  bool across = false;  // mirrored left to right
  bool down = false;    // mirrored top to bottom
  bool transposed = false;
  bool operator==(const Orientation&) const = default;
};

// Returns where a region of the shown image lies in the stored image, which has this size.
base::Rect stored_region(const base::Rect& shown, uint32_t width, uint32_t height,
                         const Orientation& orientation);

// The rows of an image as it is shown. Keeps its memory between images.
class OrientedRows final : public base::Rows {
 public:
  // Makes all rows at once.
  void turn(base::Rows& stored, const Orientation& orientation);

  uint32_t width() const override { return width_; }
  uint32_t height() const override { return height_; }
  base::PlanarRow row(uint32_t y) override { return {at(0, y), at(1, y), at(2, y)}; }

 private:
  void reset(uint32_t width, uint32_t height);
  void mirror(base::Rows& stored, const Orientation& orientation);
  void transpose(base::Rows& stored, const Orientation& orientation);
  void transpose_band(uint32_t rows, uint32_t left, bool across);
  uint8_t* at(size_t channel, size_t y) {
    return bytes_.data() + (channel * height_ + y) * stride_;
  }

  uint32_t width_ = 0;
  uint32_t height_ = 0;
  size_t stride_ = 0;  // from one row of a channel to the next
  base::ByteVector bytes_;
  base::ByteVector band_;  // stored rows that become columns together
};

}  // namespace forebay::image
