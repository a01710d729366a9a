#include "image/palette.h"

namespace forebay::image {
namespace {

uint32_t packed(const uint8_t* rgb) {
  return uint32_t{rgb[0]} << 16 | uint32_t{rgb[1]} << 8 | uint32_t{rgb[2]};
}

}  // namespace

Palette::Palette(std::span<const Entry> entries, std::optional<uint8_t> others) : others_(others) {
  for (const Entry& entry : entries) labels_.emplace(packed(entry.colour.data()), entry.label);
}

std::optional<uint8_t> Palette::label_of(uint32_t colour) const {
  const auto found = labels_.find(colour);
  return found == labels_.end() ? others_ : std::optional(found->second);
}

base::Status Palette::to_labels(base::Pixels* pixels) const {
  constexpr uint32_t kNoColour = UINT32_MAX;
  // Most pixels of a mask have the colour of the pixel before them.
  uint32_t last = kNoColour;
  uint8_t label = 0;
  for (size_t at = 0; at < pixels->rgb.size(); at += 3) {
    uint8_t* const pixel = pixels->rgb.data() + at;
    if (const uint32_t colour = packed(pixel); colour != last) {
      const auto found = label_of(colour);
      if (!found) {
        return base::fail(base::Code::kInvalid,
                          "the pixel in column {}, row {} (counted from 0) has the colour ({}, {}, "
                          "{}), which is not in the palette; add this colour, or give a number for "
                          "all other colours: palette={{…, None: 255}}",
                          at / 3 % pixels->width, at / 3 / pixels->width, pixel[0], pixel[1],
                          pixel[2]);
      }
      last = colour;
      label = *found;
    }
    pixel[0] = label;
    pixel[1] = 0;
    pixel[2] = 0;
  }
  return {};
}

}  // namespace forebay::image
