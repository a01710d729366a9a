// Masks of objects from their outlines, with the same pixels as pycocotools: polygons and
// run-lengths in the form of COCO's annotations.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "image/codec/decode.h"

namespace forebay::image {

// A corner of a polygon in fifths of a pixel, which is the grid that pycocotools draws on.
struct Corner {
  int32_t x = 0;
  int32_t y = 0;
  bool operator==(const Corner&) const = default;
};
// `x` and `y` are in pixels.
Corner corner_at(double x, double y);

// A mask as the positions, in ascending order, where it changes between background and object.
// Positions count pixels column by column. The mask begins with background.
using Changes = std::vector<uint32_t>;

// Returns the mask of one polygon in a picture of this size. kInvalid if its outline is so long
// that drawing it would take seconds.
Result<Changes> polygon_changes(std::span<const Corner> polygon, Size size);
// Returns the mask with runs of these lengths, the first of which is background. kInvalid if their
// sum is not the picture's number of pixels.
Result<Changes> run_changes(std::span<const uint32_t> runs, Size size);
// Reads the lengths of runs from COCO's compressed text. kInvalid if the text is malformed.
Result<std::vector<uint32_t>> decode_runs(std::string_view text);

// Sets a bit of the channel (0 to 2) of all pixels that belong to the object.
void draw_mask(const Changes& changes, size_t channel, uint8_t bit, Pixels* to);

}  // namespace forebay::image
