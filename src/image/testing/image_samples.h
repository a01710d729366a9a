// For tests: images made by a formula, and the lines of tests/golden/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "image/transform/border.h"

namespace forebay::image {

// Makes the same image as `image` in tests/golden/image_resize.py.
inline base::Pixels make_image(uint32_t width, uint32_t height, uint32_t seed) {
  base::Pixels pixels;
  pixels.reset(width, height);
  for (uint32_t i = 0; i < pixels.rgb.size(); ++i) {
    uint32_t v = (i + seed * 7919) * 2654435761u;
    v ^= v >> 15;
    v *= 2246822519u;
    v ^= v >> 13;
    pixels.rgb[i] = static_cast<uint8_t>(seed % 2 == 1 ? (v & 1) * 255 : v & 255);
  }
  return pixels;
}

// Returns the row or column that is shown at `at`, which may lie outside, by walking there from the
// side.
inline int64_t walked(int64_t at, int64_t side, BorderKind kind) {
  if (at >= 0 && at < side) return at;
  const int64_t steps = at < 0 ? -at : at - (side - 1);
  int64_t inwards = 0;
  if (kind == BorderKind::kReflect) inwards = steps;
  if (kind == BorderKind::kSymmetric) inwards = steps - 1;
  return at < 0 ? inwards : side - 1 - inwards;
}

// Returns what a viewport shows of an image, computed pixel by pixel.
inline base::Pixels look(const base::Pixels& from, const Viewport& viewport, const Border& border) {
  base::Pixels out;
  out.reset(viewport.size.width, viewport.size.height);
  uint8_t* to = out.rgb.data();
  for (int64_t y = viewport.y; y < viewport.y + viewport.size.height; ++y) {
    for (int64_t x = viewport.x; x < viewport.x + viewport.size.width; ++x, to += 3) {
      const bool inside = x >= 0 && x < from.width && y >= 0 && y < from.height;
      const int64_t pixel =
          walked(y, from.height, border.kind) * from.width + walked(x, from.width, border.kind);
      std::copy_n(inside || border.kind != BorderKind::kConstant ? from.rgb.data() + pixel * 3
                                                                 : border.fill.data(),
                  3, to);
    }
  }
  return out;
}

inline base::ByteVector from_hex(const std::string& hex) {
  base::ByteVector out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

// Returns the lines of a golden file without its comments.
inline std::vector<std::istringstream> golden_lines(const std::string& name) {
  std::ifstream file(std::string(FOREBAY_GOLDEN_DIR "/") + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::istringstream> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) lines.emplace_back(line);
  }
  return lines;
}

}  // namespace forebay::image
