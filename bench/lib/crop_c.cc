// Forebay's crops for bench/crop.py, which calls these functions through ctypes, so that it
// measures the core without the Python package. Not an interface to build on.
#include <algorithm>
#include <array>

#include "image/transform/crop.h"
#include "image/transform/resize.h"
#include "image/transform/tensor.h"
#include "jpeg/decode.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/keep_to.h"
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

// Restricts all of Forebay's code in this process to AVX2, or allows the machine's best again.
void bench_crop_restrict(bool to_avx2) {
  jpeg::keep_to(to_avx2 ? jpeg::EntropyKernel::kAvx2 : jpeg::EntropyKernel::kAvx512);
}

// Makes a cropper that uses the instruction sets that are allowed now. It is never freed.
Cropper* bench_crop_new() { return new Cropper; }

// Whether no neighbour uses the core now (clock.h). The first call takes a second.
bool bench_crop_is_quiet() {
  static const bench::Neighbour neighbour;
  return neighbour.is_quiet();
}

// Copies `file` in the form that `forebay pack` stores (unchanged when it cannot be rewritten) to
// `packed`, which has `room` bytes. Returns the size, or 0 when there is too little room or `file`
// is no JPEG. `geometry` receives the image's width and height, then the left, top, width and
// height of the random resized crop for `index`.
size_t bench_crop_pack(const uint8_t* file, size_t size, uint64_t index, uint8_t* packed,
                       size_t room, uint32_t* geometry) {
  const auto rewritten =
      jpeg::rewrite({file, size}, {.tables = jpeg::TableMode::kShared, .restart_interval = {}});
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

// The timed work: the crop at `x`, `y` of a packed file to 224 x 224, flipped when `flip`,
// normalised, float32, to `out` (3 x 224 x 224). Returns whether it succeeded.
bool bench_crop_run(Cropper* cropper, const uint8_t* packed, size_t size, uint32_t x, uint32_t y,
                    uint32_t width, uint32_t height, bool flip, float* out) {
  const auto header = jpeg::parse_header({packed, size});
  if (!header) return false;
  const jpeg::RegionRequest request{{packed, size}, *header, {x, y, width, height}};
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
