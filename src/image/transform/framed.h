// A picture in a frame of one colour, which together are resized. Nothing is computed for what
// shows the frame alone, and the frame is not stored.
#pragma once

#include "image/transform/cut.h"

namespace forebay::image {

struct Framed {
  Size size;    // of the frame
  Rect shown;   // where in it the picture is; without a width or a height, nowhere
  Rect source;  // the part of the picture that is shown
  std::array<uint8_t, 3> fill;
};
// What a cut shows, if it is one that puts a picture into a frame and resizes nothing.
std::optional<Framed> framed(const Cut& cut);

// The rows of a picture in a frame.
class FramedRows final : public base::Rows {
 public:
  // `from` has the rows of `frame.source`, and gives them in any order. The frame is flipped with
  // the picture.
  FramedRows(base::Rows& from, const Framed& frame, bool across, bool down);
  uint32_t width() const override { return frame_.size.width; }
  uint32_t height() const override { return frame_.size.height; }
  PlanarRow row(uint32_t y) override;
  const Framed& frame() const { return frame_; }

 private:
  base::Rows& from_;
  Framed frame_;  // as it is after the flips
  const bool across_;
  const bool down_;
  std::array<base::ByteVector, 2> rows_;  // the frame alone, and one with the picture
};

// The part of what is kept of resized rows that may show anything of the picture; the rest has the
// frame's colour. Empty: nothing shows it.
std::optional<Rect> part_with_picture(const Framed& frame, const Cut& resize);

}  // namespace forebay::image
