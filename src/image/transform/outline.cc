#include "image/transform/outline.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/limits.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

constexpr int32_t kFine = 5;  // steps of a pixel

// Calls take(point) for each point of the fine grid on the way from one corner to the next, in this
// order.
template <class Take>
void walk(Corner from, Corner to, const Take& take) {
  const int32_t across = std::abs(to.x - from.x);
  const int32_t down = std::abs(to.y - from.y);
  const bool is_flat = across >= down;
  // Lines are drawn from left to right, or from top to bottom, so that both directions give the
  // same points.
  const bool back = is_flat ? from.x > to.x : from.y > to.y;
  if (back) std::swap(from, to);
  const int32_t steps = is_flat ? across : down;
  const double rise = is_flat ? to.y - from.y : to.x - from.x;
  const double slope = steps == 0 ? 0 : rise / steps;
  for (int32_t step = 0; step <= steps; ++step) {
    const int32_t along = back ? steps - step : step;
    const auto rounded = [&](int32_t begin) {
      return static_cast<int32_t>(begin + slope * along + 0.5);
    };
    take(is_flat ? Corner{from.x + along, rounded(from.y)}
                 : Corner{rounded(from.x), from.y + along});
  }
}

// Returns the middle of a cell of the fine grid, in pixels.
double in_pixels(int32_t fine) { return (fine + 0.5) / kFine - 0.5; }

}  // namespace

Corner corner_at(double x, double y) {
  // Far outside the image, the exact place of a corner does not matter.
  static constexpr double kFar = 4.0 * base::kImageSideMax;
  const auto place = [](double pixels) {
    const double inside = pixels >= -kFar ? std::min(pixels, kFar) : -kFar;
    return static_cast<int32_t>(kFine * inside + 0.5);
  };
  return {place(x), place(y)};
}

Result<Changes> polygon_changes(std::span<const Corner> polygon, Size size) {
  constexpr int64_t kLongest = 50'000'000;  // steps
  int64_t steps = 0;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Corner& next = polygon[(i + 1) % polygon.size()];
    steps += std::max(std::abs(next.x - polygon[i].x), std::abs(next.y - polygon[i].y));
  }
  if (steps > kLongest) {
    return fail(Code::kInvalid, "the outline of an object is {} pixels long; the limit is {}",
                steps / kFine, kLongest / kFine);
  }
  Changes out;
  std::optional<Corner> last;
  // When the outline moves to another column, the mask changes at the pixel below.
  const auto take = [&](Corner point) {
    if (last && point.x != last->x) {
      const double x = in_pixels(point.x < last->x ? point.x : point.x - 1);
      if (std::floor(x) == x && x >= 0 && x <= size.width - 1.0) {
        const double y = in_pixels(std::min(point.y, last->y));
        const double row = std::ceil(std::clamp(y, 0.0, static_cast<double>(size.height)));
        out.push_back(static_cast<uint32_t>(x) * size.height + static_cast<uint32_t>(row));
      }
    }
    last = point;
  };
  for (size_t i = 0; i < polygon.size(); ++i) {
    walk(polygon[i], polygon[(i + 1) % polygon.size()], take);
  }
  std::ranges::sort(out);
  return out;
}

Result<Changes> run_changes(std::span<const uint32_t> runs, Size size) {
  const uint64_t pixels = uint64_t{size.width} * size.height;
  Changes out;
  uint64_t at = 0;
  for (const uint32_t run : runs) {
    at += run;
    if (at > pixels) break;
    out.push_back(static_cast<uint32_t>(at));
  }
  if (at != pixels) {
    return fail(Code::kInvalid, "a mask has runs of {}{} pixels, but its image has {} x {}",
                at > pixels ? "more than " : "", std::min(at, pixels), size.width, size.height);
  }
  return out;
}

// Each character, counted from '0', holds 5 bits of a number, lowest bits first; the sixth bit is
// set if more follow. From the fourth run on, a number is the difference from the run two before.
Result<std::vector<uint32_t>> decode_runs(std::string_view text) {
  constexpr int kDigitBits = 5;
  constexpr int kMostDigits = 7;
  std::vector<uint32_t> out;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    for (int digit = 0;; ++digit) {
      const int code = at < text.size() ? text[at++] - '0' : -1;
      if (code < 0 || code >= 64 || digit == kMostDigits) {
        return fail(Code::kInvalid, "the run-lengths {:?} of a mask cannot be read at character {}",
                    text.substr(0, 40), at);
      }
      value |= int64_t{code & 31} << (kDigitBits * digit);
      if ((code & 32) != 0) continue;
      if ((code & 16) != 0) value -= int64_t{1} << (kDigitBits * (digit + 1));
      break;
    }
    if (out.size() > 2) value += out[out.size() - 2];
    if (value < 0 || value > UINT32_MAX) {
      return fail(Code::kInvalid, "a mask has a run of {} pixels, but runs have from 0 to {}",
                  value, UINT32_MAX);
    }
    out.push_back(static_cast<uint32_t>(value));
  }
  return out;
}

void draw_mask(const Changes& changes, size_t channel, uint8_t bit, Pixels* to) {
  const size_t row_bytes = size_t{3} * to->width;
  const uint32_t pixels = to->width * to->height;
  for (size_t i = 0; i < changes.size(); i += 2) {
    const uint32_t end = i + 1 < changes.size() ? changes[i + 1] : pixels;
    for (uint32_t at = changes[i]; at < end;) {
      const uint32_t x = at / to->height;
      const uint32_t y = at % to->height;
      const uint32_t count = std::min(end - at, to->height - y);
      uint8_t* pixel = to->rgb.data() + y * row_bytes + size_t{3} * x + channel;
      for (uint32_t row = 0; row < count; ++row, pixel += row_bytes) *pixel |= bit;
      at += count;
    }
  }
}

}  // namespace forebay::image
