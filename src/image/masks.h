// Moves masks as the image of their sample is moved: the nearest pixel, and 0 where there is none.
#pragma once

#include "image/prepare.h"
#include "image/transform/outline.h"

namespace forebay::image {

// Keeps its buffers between samples. Used by one thread at a time.
class MaskMaker {
 public:
  // What a sample shows of a map of labels in a PNG, height x width numbers of one byte, or of two
  // where the PNG has 16 bits. `image` is the size of the sample's image. Errors: those of
  // decode_png_labels(); kInvalid when the map has another size than the image.
  Status make_labels(Bytes png, Size image, const Draw& drawn, OwnSize* out);
  // What a sample shows of the masks of its objects: objects x height x width bytes, 1 where the
  // object is. Each object has any number of parts.
  void make_objects(std::span<const std::vector<Changes>> objects, Size image, const Draw& drawn,
                    OwnSize* out);

 private:
  void move(const Draw& drawn);

  base::PixelRows from_;
  Picture picture_;  // what the sample shows of `from_`
  Cutter cutter_;
  Performer performer_;
};

// The actions of an augmentation that move a mask, as they are done to masks.
std::vector<Action> mask_actions(std::span<const Action> actions);

}  // namespace forebay::image
