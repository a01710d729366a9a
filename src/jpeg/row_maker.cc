#include "jpeg/row_maker.h"

#include <algorithm>

#include "jpeg/colour.h"

namespace forebay::jpeg {
namespace {

// The sample beyond each side is the last one again, as libjpeg has it.
void repeat_borders(const Plane& plane, uint8_t* row, uint32_t end) {
  if (plane.left == 0) row[-1] = row[0];
  if (end >= plane.width) row[plane.width - plane.left] = row[plane.width - plane.left - 1];
}

}  // namespace

void RowMaker::begin(const Scan& scan, const ScanDecoder& decoder, size_t image,
                     const base::Rect& region) {
  colour_ = scan.colour;
  left_ = region.x;
  width_ = region.width;
  count_ = static_cast<size_t>(scan.component_count);
  for (size_t c = 0; c < count_; ++c) {
    Channel& channel = channels_[c];
    channel.plane = decoder.plane(image, c);
    channel.across = scan.header.mcu_width() / 8 / scan.components[c].horizontal;
    channel.down = scan.header.mcu_height() / 8 / scan.components[c].vertical;
    // jdsample.c: narrow components are not worth it; all other ratios repeat samples.
    const bool wide = channel.plane.width > 2;
    channel.fancy = (channel.across == 2 && channel.down <= 2 && wide) ||
                    (channel.across == 1 && channel.down == 2);
    channel.upsampled.resize(width_ + size_t{2} * channel.across + 2 * kRowPadding);
  }
}

void RowMaker::make(uint32_t y, uint8_t* rgb) {
  std::array<const uint8_t*, 3> rows{};
  for (size_t c = 0; c < count_; ++c) rows[c] = upsample(channels_[c], y);
  if (colour_ == Colour::kYcc) {
    ycc_to_rgb(rows[0], rows[1], rows[2], width_, rgb);
  } else if (colour_ == Colour::kRgb) {
    interleave_rgb(rows[0], rows[1], rows[2], width_, rgb);
  } else {
    interleave_rgb(rows[0], rows[0], rows[0], width_, rgb);
  }
}

const uint8_t* RowMaker::upsample(Channel& channel, uint32_t y) {
  const Plane& plane = channel.plane;
  const uint32_t first = left_ / channel.across;
  const uint32_t end = (left_ + width_ + channel.across - 1) / channel.across;
  const uint32_t offset = first - plane.left;
  const uint32_t near = y / channel.down;
  if (channel.across == 1 && channel.down == 1) return plane.row(y) + offset;
  uint8_t* const out = channel.upsampled.data();
  uint8_t* const near_row = plane.row(near);
  if (!channel.fancy) {
    repeat_across(near_row + offset, end - first, channel.across, out);
    return out + left_ % channel.across;
  }
  // The upper of two rows lies nearer to the row above, the lower to the one below.
  const bool upper = y % 2 == 0;
  const uint32_t far = upper ? near - std::min(near, 1u) : std::min(near + 1, plane.height - 1);
  uint8_t* const far_row = channel.down == 1 ? near_row : plane.row(far);
  if (channel.across == 1) {
    blend_down(near_row + offset, far_row + offset, width_, upper ? 1 : 2, out);
    return out;
  }
  repeat_borders(plane, near_row, end);
  if (channel.down == 1) {
    double_across(near_row + offset, end - first, out);
  } else {
    repeat_borders(plane, far_row, end);
    double_both(near_row + offset, far_row + offset, end - first, out);
  }
  return out + left_ % 2;
}

}  // namespace forebay::jpeg
