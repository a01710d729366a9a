#include "jpeg/row_maker.h"

#include <algorithm>

namespace forebay::jpeg {
namespace {

// Repeats the border samples of all rows that upsampling to `region` reads. This happens before any
// row is read, because a byte that was just written delays a load that covers it.
void repeat_borders(const Channel& channel, const base::Rect& region) {
  const Plane& plane = channel.plane;
  const bool left = plane.left == 0;
  const bool right = channel.first + channel.samples >= plane.width;
  if (!left && !right) return;
  const uint32_t width = plane.width - plane.left;
  const uint32_t first = region.y / channel.down;
  const uint32_t last = (region.y + region.height - 1) / channel.down;
  for (uint32_t y = first - std::min(first, 1u); y <= std::min(last + 1, plane.height - 1); ++y) {
    uint8_t* const row = plane.row(y);
    if (left) row[-1] = row[0];
    if (right) row[width] = row[width - 1];
  }
}

}  // namespace

void RowMaker::begin(const Scan& scan, const RegionBatch& decoder, size_t image,
                     const base::Rect& region) {
  region_ = region;
  job_.colour = scan.colour;
  job_.left = region.x;
  job_.width = region.width;
  job_.count = static_cast<size_t>(scan.component_count);
  constexpr size_t kWidestSample = 4;
  const size_t row_bytes = region.width + 2 * kWidestSample + 2 * kRowPadding;
  if (buffers_.size() < 6 * row_bytes) buffers_.resize(6 * row_bytes);
  for (size_t c = 0; c < 3; ++c) job_.planar[c] = buffers_.data() + (3 + c) * row_bytes;
  const uint32_t mcu_width = scan.header.mcu_width() / scan.scale;
  const uint32_t mcu_height = scan.header.mcu_height() / scan.scale;
  for (size_t c = 0; c < job_.count; ++c) {
    Channel& channel = job_.channels[c];
    channel.plane = decoder.plane(image, c);
    const ScanComponent& component = scan.components[c];
    channel.across = mcu_width / (component.horizontal * component.side);
    channel.down = mcu_height / (component.vertical * component.side);
    channel.first = region.x / channel.across;
    channel.samples = divide_up(region.x + region.width, channel.across) - channel.first;
    channel.fancy = is_fancy(channel.across, channel.down, channel.plane.width, scan.scale);
    channel.upsampled = buffers_.data() + c * row_bytes;
    if (channel.fancy && channel.across == 2) repeat_borders(channel, region);
  }
}

void RowMaker::move_to(base::Pixels* out) {
  out->reset(region_.width, region_.height);
  make_rows(job_, region_.y, region_.y + region_.height, out->rgb.data());
}

}  // namespace forebay::jpeg
