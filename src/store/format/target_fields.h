// The names of the fields that hold what moves with a sample's image (docs/targets.md).
#pragma once

#include <array>
#include <string_view>

namespace forebay::store {

// JSON in COCO's format with one image, its annotations and their categories.
inline constexpr std::string_view kAnnotationsField = "coco.json";
// A map of labels in a PNG, which is as large as the image. A sample may have one under each name;
// then the first name counts. `forebay pack --masks` stores the first.
inline constexpr std::array<std::string_view, 2> kMaskFields = {"mask.png", "seg.png"};

}  // namespace forebay::store
