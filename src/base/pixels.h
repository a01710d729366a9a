// Decoded pixels, regions of an image, and the interface through which a decoder delivers rows.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"

namespace forebay::base {

// A region of an image, in pixels from its top left corner.
struct Rect {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;

  bool operator==(const Rect&) const = default;
  bool inside(uint32_t image_width, uint32_t image_height) const {
    return width > 0 && height > 0 && in_bounds(x, width, image_width) &&
           in_bounds(y, height, image_height);
  }
};

// RGB, 8 bits a channel, interleaved, rows from the top without gaps: height * width * 3 bytes.
struct Pixels {
  uint32_t width = 0;
  uint32_t height = 0;
  ByteVector rgb;

  // Makes room for width * height pixels. The old pixels are lost, but their memory is reused.
  void reset(uint32_t new_width, uint32_t new_height) {
    width = new_width;
    height = new_height;
    rgb.resize(size_t{width} * height * 3);
  }
  // Crops in place to `region`, which must be inside.
  void crop(const Rect& region);
};

// One row of pixels, stored as a separate row for each channel. Readers may read kPlanarPadding
// bytes beyond the end of each.
using PlanarRow = std::array<const uint8_t*, 3>;
inline constexpr size_t kPlanarPadding = 64;

// Copies one channel of a row, mirrored left to right if `mirrored`. The buffers must not overlap.
void copy_channel(const uint8_t* from, size_t width, bool mirrored, uint8_t* to);

// The rows of a decoded region, which are made on demand. There is at least one row.
class Rows {
 public:
  virtual uint32_t width() const = 0;
  virtual uint32_t height() const = 0;
  // Returns row `y`. It stays valid until the next call.
  virtual PlanarRow row(uint32_t y) = 0;
  // Moves all rows to `out`. No rows are left afterwards.
  virtual void move_to(Pixels* out);

 protected:
  ~Rows() = default;
};

// Rows of pixels that are already in memory.
class PixelRows final : public Rows {
 public:
  uint32_t width() const override { return pixels.width; }
  uint32_t height() const override { return pixels.height; }
  PlanarRow row(uint32_t y) override;
  void move_to(Pixels* out) override { std::swap(pixels, *out); }

  Pixels pixels;

 private:
  ByteVector row_;
};

// Returns kTooBig when a size is above the limits. The message begins with `what`, such as "JPEG".
Status check_image_size(std::string_view what, uint32_t width, uint32_t height);

}  // namespace forebay::base
