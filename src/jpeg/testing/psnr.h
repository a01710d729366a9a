// For tests: how similar two images are.
#pragma once

#include <cmath>
#include <limits>

#include "base/pixels.h"

namespace forebay::jpeg {

// The peak signal-to-noise ratio in dB; infinite for equal pixels. Both images have the same size.
inline double psnr(const base::Pixels& a, const base::Pixels& b) {
  double squares = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) {
    const double difference = static_cast<double>(a.rgb[i]) - b.rgb[i];
    squares += difference * difference;
  }
  if (squares == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.rgb.size()) / squares);
}

}  // namespace forebay::jpeg
