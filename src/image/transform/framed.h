// A picture in a frame of one colour, both of which are resized together. Outputs that show only
// the frame are not computed, and the frame is not stored.
#pragma once

#include "image/transform/cut.h"

namespace forebay::image {

struct Framed {
  Size size;    // of the frame
  Rect shown;   // where in the frame the picture is; without a width or height, nowhere
  Rect source;  // the part of the picture that is shown
  std::array<uint8_t, 3> fill;
};
// Returns what a cut shows, if it puts a picture into a frame of one colour and resizes nothing.
std::optional<Framed> framed(const Cut& cut);

// The rows of a picture in a frame.
class FramedRows final : public base::Rows {
 public:
  // `from` has the rows of `frame.source`, and gives them in any order. `across` and `down` flip
  // the frame together with the picture.
  FramedRows(base::Rows& from, const Framed& frame, bool across, bool down);
  uint32_t width() const override { return frame_.size.width; }
  uint32_t height() const override { return frame_.size.height; }
  PlanarRow row(uint32_t y) override;
  const Framed& frame() const { return frame_; }

 private:
  base::Rows& from_;
  Framed frame_;  // after the flips
  const bool across_;
  const bool down_;
  std::array<base::ByteVector, 2> rows_;  // the frame alone, and one with the picture
};

// Returns the part of `resize.kept` that may show the picture, or nothing if no part does. The rest
// has the frame's colour.
std::optional<Rect> part_with_picture(const Framed& frame, const Cut& resize);

}  // namespace forebay::image
