// The names of the fields that hold annotations and masks (docs/targets.md).
#pragma once

#include <array>
#include <string_view>

namespace forebay::store {

// JSON in COCO's format with one image, its annotations and their categories.
inline constexpr std::string_view kAnnotationsField = "coco.json";
// A map of labels in a PNG as large as the image. If a sample has fields of both names, the first
// one counts. `forebay pack --masks` stores the first one.
inline constexpr std::array<std::string_view, 2> kMaskFields = {"mask.png", "seg.png"};

}  // namespace forebay::store
