// Forebay's crops for bench/crop.py, which calls these functions through ctypes while Forebay has
// no Python package. Not an interface to build on.
#include <algorithm>
#include <array>

#include "image/crop.h"
#include "image/resize.h"
#include "image/tensor.h"
#include "jpeg/decode.h"
#include "jpeg/keep_to.h"
#include "jpeg/rewrite.h"
#include "lib/clock.h"

using namespace forebay;

constexpr uint32_t kSize = 224;

// What a thread of the feed keeps between images.
struct Cropper {
  jpeg::Decoder decoder;
  image::Resizer resizer;
  image::TensorWriter writer{image::TensorOptions{}};
};

extern "C" {

// From now on all of Forebay's code in this process keeps to AVX2, or takes the machine's best.
void bench_crop_restrict(bool to_avx2) {
  jpeg::keep_to(to_avx2 ? jpeg::EntropyKernel::kAvx2 : jpeg::EntropyKernel::kAvx512);
}

// Decodes with what may be used now; never freed.
Cropper* bench_crop_new() { return new Cropper; }

// Whether no neighbour uses the core now (clock.h). The first call takes a second.
bool bench_crop_is_quiet() {
  static const bench::Neighbour neighbour;
  return neighbour.is_quiet();
}

// Copies `file` as `forebay pack` stores it (unchanged where it cannot be rewritten) to `packed`,
// which has `room` bytes, and gives its size; 0 when there is too little room or `file` is no JPEG.
// To `geometry`: the image's width and height, then the left, top, width and height of the random
// resized crop that belongs to `index`.
size_t bench_crop_pack(const uint8_t* file, size_t size, uint64_t index, uint8_t* packed,
                       size_t room, uint32_t* geometry) {
  const auto rewritten =
      jpeg::rewrite({file, size}, {.tables = jpeg::TableChoice::kShared, .restart_interval = {}});
  const base::Bytes bytes = rewritten ? base::Bytes(rewritten->file) : base::Bytes(file, size);
  const auto header = jpeg::parse_header(bytes);
  if (!header || bytes.size() > room) return 0;
  std::ranges::copy(bytes, packed);
  base::Random random(1, base::Purpose::kTest, 0, index);
  const base::Rect crop = image::draw_crop({}, header->width, header->height, random);
  std::ranges::copy(
      std::array{header->width, header->height, crop.x, crop.y, crop.width, crop.height}, geometry);
  return bytes.size();
}

// What is timed: the crop at `x`, `y` of a packed file to 224 x 224, flipped when `flip`,
// normalised, float32, to `out` (3 x 224 x 224). Whether it went well.
bool bench_crop_run(Cropper* cropper, const uint8_t* packed, size_t size, uint32_t x, uint32_t y,
                    uint32_t width, uint32_t height, bool flip, float* out) {
  const auto header = jpeg::parse_header({packed, size});
  if (!header) return false;
  const jpeg::DecodeRequest request{{packed, size}, *header, {x, y, width, height}};
  bool good = false;
  cropper->decoder.decode({&request, 1}, [&](size_t, const base::Status& status, base::Rows& rows) {
    good = status.ok();
    if (!good) return;
    cropper->resizer.resize(rows, image::whole(rows), {kSize, kSize}, {0, 0, kSize, kSize},
                            [&](uint32_t row_y, const base::PlanarRow& row) {
                              cropper->writer.write_row(row, row_y, {kSize, kSize}, flip,
                                                        reinterpret_cast<uint8_t*>(out));
                            });
    image::TensorWriter::complete();
  });
  return good;
}

}  // extern "C"
