// Turns masks whose colours stand for classes into maps of labels.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/pixels.h"

namespace forebay::image {

// The labels of colours. Immutable, so any thread may use it.
class Palette {
 public:
  struct Entry {
    std::array<uint8_t, 3> colour{};  // red, green, blue
    uint8_t label = 0;
  };

  // All colours that are not among `entries` have the label `others`; unset: they are an error. If
  // a colour comes twice, its first entry counts.
  Palette(std::span<const Entry> entries, std::optional<uint8_t> others);

  // Replaces the colour of each pixel by its label: red becomes the label, green and blue become 0.
  // Errors: kInvalid at the first pixel whose colour has no label.
  base::Status to_labels(base::Pixels* pixels) const;

 private:
  std::optional<uint8_t> label_of(uint32_t colour) const;

  std::unordered_map<uint32_t, uint8_t> labels_;  // by the colour's bytes, red first
  const std::optional<uint8_t> others_;
};

}  // namespace forebay::image
