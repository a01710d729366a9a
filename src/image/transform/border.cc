#include "image/transform/border.h"

#include <algorithm>
#include <cstring>

namespace forebay::image {
namespace {

// Returns which of `side` pixels is shown at `at`, which may lie outside; for kConstant, the
// nearest pixel.
uint32_t shown_at(int64_t at, uint32_t side, BorderKind kind) {
  const int64_t last = int64_t{side} - 1;
  if (at >= 0 && at <= last) return static_cast<uint32_t>(at);
  switch (kind) {
    case BorderKind::kConstant:
    case BorderKind::kEdge:
      at = at < 0 ? 0 : last;
      break;
    case BorderKind::kReflect:  // -1 is 1
      at = at < 0 ? -at : 2 * last - at;
      break;
    case BorderKind::kSymmetric:  // -1 is 0
      at = at < 0 ? -1 - at : 2 * last + 1 - at;
      break;
  }
  FOREBAY_CHECK(at >= 0 && at <= last);
  return static_cast<uint32_t>(at);
}

struct Interval {
  uint32_t begin;
  uint32_t count;
};

Interval shown_along(int64_t begin, uint32_t count, uint32_t side, BorderKind kind) {
  const int64_t end = begin + count;
  auto [first, last] = std::minmax({shown_at(begin, side, kind), shown_at(end - 1, side, kind)});
  // The shown pixels change in steps of one and turn around only at the sides.
  if (begin <= 0 && end > 0) first = 0;
  if (begin < side && end >= side) last = side - 1;
  return {first, last - first + 1};
}

}  // namespace

Rect part_shown(Size image, const Viewport& viewport, BorderKind border) {
  const Interval across = shown_along(viewport.x, viewport.size.width, image.width, border);
  const Interval down = shown_along(viewport.y, viewport.size.height, image.height, border);
  return {across.begin, down.begin, across.count, down.count};
}

void append_shown(int64_t begin, uint32_t count, uint32_t side, BorderKind kind, uint32_t first,
                  std::vector<int32_t>* to) {
  for (int64_t at = begin; at < begin + count; ++at) {
    const bool none = kind == BorderKind::kConstant && (at < 0 || at >= side);
    to->push_back(none ? -1 : static_cast<int32_t>(shown_at(at, side, kind) - first));
  }
}

void ViewportRows::begin(Size image, const Viewport& viewport, const Border& border) {
  image_ = image;
  viewport_ = viewport;
  border_ = border;
  part_ = part_shown(image, viewport, border.kind);
  const auto clamped = [&](int64_t column) {
    return static_cast<uint32_t>(
        std::clamp(column - viewport.x, int64_t{0}, int64_t{viewport.size.width}));
  };
  begin_ = clamped(0);
  end_ = clamped(image.width);
  columns_.resize(viewport.size.width);
  const auto find = [&](uint32_t from, uint32_t to) {
    for (uint32_t x = from; x < to; ++x) {
      columns_[x] = shown_at(viewport.x + x, image.width, border.kind) - part_.x;
    }
  };
  find(0, begin_);
  find(end_, viewport.size.width);
}

// Returns room for a row of the viewport.
std::array<uint8_t*, 3> ViewportRows::room() {
  const size_t stride = viewport_.size.width + base::kPlanarPadding;
  row_.resize(3 * stride);
  return {row_.data(), row_.data() + stride, row_.data() + 2 * stride};
}

base::PlanarRow ViewportRows::empty_row() {
  const auto out = room();
  for (size_t c = 0; c < out.size(); ++c) {
    std::memset(out[c], border_.fill[c], viewport_.size.width);
  }
  return {out[0], out[1], out[2]};
}

base::PlanarRow ViewportRows::cut(const base::PlanarRow& row) {
  const auto out = room();
  const bool filled = border_.kind == BorderKind::kConstant;
  const auto inside = static_cast<size_t>(viewport_.x + begin_ - part_.x);
  for (size_t c = 0; c < out.size(); ++c) {
    const auto make = [&](uint32_t from, uint32_t to) {
      for (uint32_t x = from; x < to; ++x) {
        out[c][x] = filled ? border_.fill[c] : row[c][columns_[x]];
      }
    };
    make(0, begin_);
    if (begin_ < end_) std::memcpy(out[c] + begin_, row[c] + inside, end_ - begin_);
    make(end_, viewport_.size.width);
  }
  return {out[0], out[1], out[2]};
}

}  // namespace forebay::image
