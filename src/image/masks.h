// Transforms masks like the image of their sample, by nearest pixels. What lies outside the mask
// becomes 0, or in a map of labels the label that a border or a warp gives (`mask_fill`).
#pragma once

#include "image/palette.h"
#include "image/prepare.h"
#include "image/transform/outline.h"

namespace forebay::image {

// Which image annotations and masks were drawn on: the image as it is stored, or as its orientation
// tag shows it. kBySize: the one whose size they have, or the stored image if both have it.
enum class DrawnOn : uint8_t { kBySize, kStored, kShown };

enum class MaskKind : uint8_t { kLabels, kObjects };

// Keeps its buffers between samples. Used by one thread at a time.
class MaskMaker {
 public:
  // Decodes a map of labels from a PNG and transforms it like the sample's image. The result has
  // height x width numbers of one byte each, or of two bytes if the PNG has 16 bits. With a
  // palette, colours become labels of one byte, whatever way the PNG stores its colours. A map of
  // the same size as the image's stored pixels is turned like them; otherwise it must have the size
  // of the shown image. With another `drawn_on` than kBySize only one of these sizes counts. The
  // map's own orientation tag is ignored. Errors: those of decode_png_labels() or
  // decode_png_colours() and Palette::to_labels(); kInvalid if the map has neither size.
  Status make_labels(Bytes png, const Encoded& image, DrawnOn drawn_on, const Palette* palette,
                     const Draw& drawn, OwnSize* out);
  // Draws the masks of a sample's objects and transforms them like the sample's image. The result
  // has objects x height x width bytes, with 1 inside the object and 0 elsewhere. Each object has
  // any number of parts. They are drawn on the stored pixels, which `orientation` turns to the
  // shown size, `image`.
  void make_objects(std::span<const std::vector<Changes>> objects, Size image,
                    const Orientation& orientation, const Draw& drawn, OwnSize* out);

 private:
  Status decode(Bytes png, const Palette* palette);
  void move(const Orientation& orientation, const Draw& drawn, MaskKind kind);

  base::PixelRows from_;
  OrientedRows shown_;
  Picture picture_;  // what the sample shows of `from_`
  Cutter cutter_;
  Performer performer_;
};

// Returns the actions that move pixels, changed for masks: nearest pixels, and outside the picture
// the label that they give, or 0 for masks of objects.
std::vector<Action> mask_actions(std::span<const Action> actions, MaskKind kind);

}  // namespace forebay::image
