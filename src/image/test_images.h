// For tests: images made by a formula, and the lines of tests/golden/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/pixels.h"

namespace forebay::image {

// As `image` in tests/golden/image_resize.py.
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

// `crop` of `from` with `padding` around it that mirrors it, pixel by pixel.
inline base::Pixels cut_padded(const base::Pixels& from, uint32_t padding, const base::Rect& crop) {
  const auto mirrored = [padding](uint32_t at, uint32_t side) {
    const int64_t inside = std::abs(int64_t{at} - padding);
    return static_cast<size_t>(std::min(inside, 2 * (int64_t{side} - 1) - inside));
  };
  base::Pixels out;
  out.reset(crop.width, crop.height);
  uint8_t* to = out.rgb.data();
  for (uint32_t y = 0; y < crop.height; ++y) {
    const size_t row = mirrored(crop.y + y, from.height) * from.width;
    for (uint32_t x = 0; x < crop.width; ++x, to += 3) {
      std::copy_n(from.rgb.data() + (row + mirrored(crop.x + x, from.width)) * 3, 3, to);
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

// The lines of a golden file without its comments.
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
