#include "image/transform/framed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace forebay::image {
namespace {

struct Interval {
  uint32_t begin;
  uint32_t count;
};

// Returns where a viewport that begins at `begin` shows any of `side` pixels.
Interval shown_along(int64_t begin, uint32_t count, uint32_t side) {
  const auto within = [&](int64_t at) {
    return static_cast<uint32_t>(std::clamp(at - begin, int64_t{0}, int64_t{count}));
  };
  return {within(0), within(side) - within(0)};
}

// Returns the kept outputs of an axis that may depend on the shown pixels.
Interval touched_along(const Interval& shown, uint32_t side, uint32_t resized,
                       const Interval& kept) {
  const double scale = static_cast<double>(side) / resized;
  // No filter reaches further than two pixels of the smaller grid; one more is for rounding.
  const double reach = 3 * std::max(scale, 1.0);
  const auto output_at = [&](double place) {
    const double kept_end = static_cast<double>(kept.begin) + kept.count;
    return static_cast<uint32_t>(
        std::clamp(std::floor(place / scale), static_cast<double>(kept.begin), kept_end));
  };
  const uint32_t first = output_at(shown.begin - reach);
  const uint32_t end = output_at(static_cast<double>(shown.begin) + shown.count + reach + scale);
  return {first, end - first};
}

}  // namespace

std::optional<Framed> framed(const Cut& cut) {
  if (!cut.outside || cut.resizes() || cut.outside->border.kind != BorderKind::kConstant) {
    return std::nullopt;
  }
  const auto& [image, viewport, border] = *cut.outside;
  const Interval across = shown_along(viewport.x, viewport.size.width, image.width);
  const Interval down = shown_along(viewport.y, viewport.size.height, image.height);
  return Framed{
      .size = viewport.size,
      .shown = {across.begin, down.begin, across.count, down.count},
      .source = {cut.region.x + cut.kept.x, cut.region.y + cut.kept.y, across.count, down.count},
      .fill = border.fill};
}

FramedRows::FramedRows(base::Rows& from, const Framed& frame, bool across, bool down)
    : from_(from), frame_(frame), across_(across), down_(down) {
  const auto [size, shown, source, fill] = frame;
  if (across) frame_.shown.x = size.width - shown.x - shown.width;
  if (down) frame_.shown.y = size.height - shown.y - shown.height;
  const size_t stride = size.width + base::kPlanarPadding;
  for (base::ByteVector& row : rows_) {
    row.resize(3 * stride);
    for (size_t c = 0; c < 3; ++c) std::memset(row.data() + c * stride, fill[c], stride);
  }
}

PlanarRow FramedRows::row(uint32_t y) {
  const size_t stride = frame_.size.width + base::kPlanarPadding;
  const Rect& shown = frame_.shown;
  const bool is_shown = shown.width > 0 && y >= shown.y && y - shown.y < shown.height;
  uint8_t* const out = rows_[is_shown ? 1 : 0].data();
  if (is_shown) {
    const uint32_t line = down_ ? shown.height - 1 - (y - shown.y) : y - shown.y;
    const PlanarRow from = from_.row(line);
    for (size_t c = 0; c < from.size(); ++c) {
      base::copy_channel(from[c], shown.width, across_, out + c * stride + shown.x);
    }
  }
  return {out, out + stride, out + 2 * stride};
}

std::optional<Rect> part_with_picture(const Framed& frame, const Cut& resize) {
  const Rect& shown = frame.shown;
  if (shown.width == 0 || shown.height == 0) return std::nullopt;
  const Rect& kept = resize.kept;
  const Interval across = touched_along({shown.x, shown.width}, frame.size.width,
                                        resize.resized.width, {kept.x, kept.width});
  const Interval down = touched_along({shown.y, shown.height}, frame.size.height,
                                      resize.resized.height, {kept.y, kept.height});
  if (across.count == 0 || down.count == 0) return std::nullopt;
  return Rect{across.begin, down.begin, across.count, down.count};
}

}  // namespace forebay::image
