// A picture in memory, one plane of bytes for each channel, which the steps of an augmentation
// change.
#pragma once

#include "image/codec/decode.h"

namespace forebay::image {

using base::PlanarRow;

// Keeps its memory between pictures.
class Picture {
 public:
  // Makes room for a picture of this size, whose pixels are undefined.
  void reset(Size size);
  // Fills the picture with one colour.
  void fill(Size size, const std::array<uint8_t, 3>& colour);
  Size size() const { return size_; }
  // The number of bytes from one row of a plane to the next, a multiple of kPlanarPadding. The
  // bytes of a row after its pixels may be read and overwritten.
  size_t stride() const { return stride_; }
  uint8_t* row(size_t channel, uint32_t y) { return bytes_.data() + at(channel, y); }
  const uint8_t* row(size_t channel, uint32_t y) const { return bytes_.data() + at(channel, y); }
  PlanarRow rows(uint32_t y) const { return {row(0, y), row(1, y), row(2, y)}; }
  // Copies a row of the picture's width, mirrored left to right when `flip`.
  void set_row(uint32_t y, const PlanarRow& from, bool flip);

 private:
  size_t at(size_t channel, uint32_t y) const { return (channel * size_.height + y) * stride_; }

  Size size_;
  size_t stride_ = 0;
  base::ByteVector bytes_;
};

// The rows of a region of a picture. The picture must not change meanwhile.
class PictureRows final : public base::Rows {
 public:
  PictureRows(const Picture& picture, const base::Rect& region)
      : picture_(picture), region_(region) {}
  uint32_t width() const override { return region_.width; }
  uint32_t height() const override { return region_.height; }
  PlanarRow row(uint32_t y) override {
    PlanarRow out = picture_.rows(region_.y + y);
    for (const uint8_t*& channel : out) channel += region_.x;
    return out;
  }

 private:
  const Picture& picture_;
  const base::Rect region_;
};

}  // namespace forebay::image
