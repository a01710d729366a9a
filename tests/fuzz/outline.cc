// deps: forebay_image
// Draws masks from run-lengths and polygons of any form, and decodes maps of labels. None of them
// may crash or write outside of the picture, and runs that are taken have all of its pixels.
#include "image/transform/outline.h"

#include <cstdlib>
#include <cstring>

#include "image/codec/png.h"

using namespace forebay;
using namespace forebay::image;

namespace {

void draw(const Changes& changes, Size size) {
  Pixels picture;
  picture.reset(size.width, size.height);
  draw_mask(changes, 2, 0x40, &picture);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes < 4) return 0;
  const Size size{1U + data[0], 1U + data[1]};
  const bool is_text = data[2] % 2 == 0;
  data += 4;
  bytes -= 4;
  if (is_text) {
    const auto runs = decode_runs({reinterpret_cast<const char*>(data), bytes});
    if (!runs) return 0;
    const auto changes = run_changes(*runs, size);
    if (changes) draw(*changes, size);
    return 0;
  }
  std::vector<Corner> corners;
  for (size_t at = 0; at + 2 * sizeof(float) <= bytes && at < 400; at += 2 * sizeof(float)) {
    float place[2];
    std::memcpy(place, data + at, sizeof place);
    // Lines far outside only take time.
    if (!(std::abs(place[0]) < 2000 && std::abs(place[1]) < 2000)) continue;
    corners.push_back(corner_at(place[0], place[1]));
  }
  const auto changes = polygon_changes(corners, size);
  if (changes) draw(*changes, size);
  Pixels labels;
  (void)decode_png_labels({data, bytes}, &labels);
  return 0;
}
