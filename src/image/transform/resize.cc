#include "image/transform/resize.h"

#include <algorithm>
#include <span>

#include "image/transform/blend.h"

namespace forebay::image {

using base::ByteVector;

// Source rows come once each, from the top. Rows that later outputs need again are kept.
struct Resizer::State {
  Interpolation interpolation = Interpolation::kBilinear;
  Across across;
  Axis down;

  base::Rows* from = nullptr;
  Rect kept;
  AxisSpec wanted_across;
  AxisSpec wanted_down;
  bool is_across = false;
  size_t channel_stride = 0;  // between the channels of a row in `between`
  size_t row_bytes = 0;
  ByteVector between;  // rows after the first pass, by number modulo down.taps
  uint32_t next_row = 0;
  ByteVector blended;
  std::vector<const uint8_t*> taps;
  std::vector<uint32_t> columns;  // the source columns, for nearest

  void resize_nearest(const TakeRow& take);
  void begin_rows();
  void make_row(uint32_t number, uint8_t* to);
  const uint8_t* row_between(uint32_t number);
  PlanarRow channels_of(const uint8_t* row) const {
    return {row, row + channel_stride, row + 2 * channel_stride};
  }
  void resize_across(const TakeRow& take);
  void resize_down(const TakeRow& take);
};

void Resizer::State::resize_nearest(const TakeRow& take) {
  columns.resize(kept.width);
  for (uint32_t x = 0; x < kept.width; ++x) columns[x] = nearest_pixel(wanted_across, kept.x + x);
  for (uint32_t y = 0; y < kept.height; ++y) {
    const PlanarRow row = from->row(nearest_pixel(wanted_down, kept.y + y));
    for (size_t c = 0; c < row.size(); ++c) {
      // Local variables, because a byte that is stored could change what members say.
      uint8_t* to = blended.data() + c * channel_stride;
      const uint8_t* const pixels = row[c];
      for (const uint32_t column : std::span(columns)) *to++ = pixels[column];
    }
    take(y, channels_of(blended.data()));
  }
}

void Resizer::State::begin_rows() {
  is_across = !is_copy(wanted_across);
  if (is_across) across.compute(wanted_across);
  next_row = 0;
}

// Makes row `number` of the source after the first pass.
void Resizer::State::make_row(uint32_t number, uint8_t* to) {
  const PlanarRow row = from->row(number);
  if (is_across) {
    blend_across(across, row, to, channel_stride);
    return;
  }
  for (size_t c = 0; c < row.size(); ++c) {
    std::memcpy(to + c * channel_stride, row[c] + kept.x, kept.width);
  }
}

// Taps after the last row have no weight, so any row will do for them.
const uint8_t* Resizer::State::row_between(uint32_t number) {
  number = std::min(number, from->height() - 1);
  uint8_t* const row = between.data() + number % down.taps * row_bytes;
  if (number >= next_row) {
    make_row(number, row);
    next_row = number + 1;
  }
  return row;
}

void Resizer::State::resize_across(const TakeRow& take) {
  for (uint32_t y = 0; y < kept.height; ++y) {
    make_row(kept.y + y, blended.data());
    take(y, channels_of(blended.data()));
  }
}

void Resizer::State::resize_down(const TakeRow& take) {
  between.resize(down.taps * row_bytes);
  taps.resize(down.taps);
  for (uint32_t y = 0; y < kept.height; ++y) {
    for (uint32_t tap = 0; tap < down.taps; ++tap) taps[tap] = row_between(down.start[y] + tap);
    blend_down(down, y, taps.data(), row_bytes, blended.data());
    take(y, channels_of(blended.data()));
  }
}

Resizer::Resizer(Interpolation interpolation) : state_(std::make_unique<State>()) {
  state_->interpolation = interpolation;
}
Resizer::~Resizer() = default;
Resizer::Resizer(Resizer&&) noexcept = default;
Resizer& Resizer::operator=(Resizer&&) noexcept = default;

void Resizer::resize(base::Rows& from, const Box& box, Size size, const Rect& kept,
                     const TakeRow& take) {
  FOREBAY_CHECK(kept.inside(size.width, size.height));
  State& s = *state_;
  const bool cubic = s.interpolation == Interpolation::kBicubic;
  const bool exact = s.interpolation == Interpolation::kNearestExact;
  s.from = &from;
  s.kept = kept;
  s.wanted_across = {.in = from.width(),
                     .begin = box.x,
                     .length = box.width,
                     .out = size.width,
                     .first = kept.x,
                     .count = kept.width,
                     .cubic = cubic,
                     .exact = exact};
  s.wanted_down = {.in = from.height(),
                   .begin = box.y,
                   .length = box.height,
                   .out = size.height,
                   .first = kept.y,
                   .count = kept.height,
                   .multiple = 2,
                   .cubic = cubic,
                   .exact = exact};
  s.channel_stride = (kept.width + kBlendPadding - 1) / kBlendPadding * kBlendPadding;
  s.row_bytes = 3 * s.channel_stride;
  s.blended.resize(s.row_bytes + kBlendPadding);
  if (is_nearest(s.interpolation)) {
    s.resize_nearest(take);
    return;
  }
  s.begin_rows();
  if (is_copy(s.wanted_down)) {
    s.resize_across(take);
    return;
  }
  s.down.compute(s.wanted_down);
  s.resize_down(take);
}

void Resizer::resize(base::Rows& from, const Box& box, Size size, const Rect& kept, Pixels* to) {
  to->reset(kept.width, kept.height);
  resize(from, box, size, kept, [to](uint32_t y, const PlanarRow& row) {
    uint8_t* out = to->rgb.data() + size_t{y} * to->width * 3;
    for (uint32_t x = 0; x < to->width; ++x) {
      for (const uint8_t* channel : row) *out++ = channel[x];
    }
  });
}

}  // namespace forebay::image
