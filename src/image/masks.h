// Moves masks as the image of their sample is moved: the nearest pixel, and 0 where there is none.
#pragma once

#include "image/prepare.h"
#include "image/transform/outline.h"

namespace forebay::image {

// Keeps its buffers between samples. Used by one thread at a time.
class MaskMaker {
 public:
  // What a sample shows of a map of labels in a PNG, height x width numbers of one byte, or of two
  // where the PNG has 16 bits. The map belongs to the stored pixels of the sample's image where it
  // has their size, and else to the shown ones; its own orientation tag does not count. Errors:
  // those of decode_png_labels(); kInvalid when the map has another size than the image.
  Status make_labels(Bytes png, const Encoded& image, const Draw& drawn, OwnSize* out);
  // What a sample shows of the masks of its objects: objects x height x width bytes, 1 where the
  // object is. Each object has any number of parts, which are drawn on an image that `orientation`
  // turns to what is shown, with size `image`.
  void make_objects(std::span<const std::vector<Changes>> objects, Size image,
                    const Orientation& orientation, const Draw& drawn, OwnSize* out);

 private:
  void move(const Orientation& orientation, const Draw& drawn);

  base::PixelRows from_;
  OrientedRows shown_;
  Picture picture_;  // what the sample shows of `from_`
  Cutter cutter_;
  Performer performer_;
};

// The actions of an augmentation that move a mask, as they are done to masks.
std::vector<Action> mask_actions(std::span<const Action> actions);

}  // namespace forebay::image
