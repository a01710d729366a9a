// deps: forebay_jpeg JPEG::JPEG
// Any bytes go through the header parser, the decoders, the rewrite and a region read. Errors are
// fine, crashes are not. Every kernel must decode what libjpeg-turbo decodes, to the same pixels.
// Files that are decoded side by side must give the same pixels as each file alone. A rewritten
// file must decode to the same pixels.
#include <cstdlib>
#include <memory>

#include "base/checksum.h"
#include "jpeg/decode.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/kernel_samples.h"
#include "jpeg/turbo_decode.h"

namespace jpeg = forebay::jpeg;
using forebay::base::Bytes;
using forebay::base::Pixels;
using forebay::base::Rect;

namespace {

constexpr uint64_t kMostPixels = 1 << 16;  // larger images only slow the fuzzer down

void require(bool condition) {
  if (!condition) std::abort();
}

void read_region(const jpeg::Rewritten& file, const Rect& region, jpeg::Decoder& decoder) {
  const auto composed = jpeg::extract_region(file.index, file.file, region);
  require(composed.has_value());
  Pixels whole;
  Pixels part;
  if (!decoder.decode(file.file, region, &whole).ok()) return;
  require(decoder.decode(*composed, region, &part).ok());
  require(whole.rgb == part.rgb);
}

// Uses the bytes as a header, with an index that claims to belong to it.
void compose_anything(Bytes data, const jpeg::Header& header) {
  jpeg::RestartIndex index;
  index.header_bytes = header.header_bytes;
  index.header_crc32c = forebay::base::crc32c(data.first(header.header_bytes));
  index.segments.resize(header.segment_count());
  (void)jpeg::compose_region(index, data.first(header.header_bytes), {}, {});
  // Reads one segment too few, then everything.
  const Rect all{0, 0, header.width, header.height};
  (void)jpeg::plan_region(index, data.first(header.header_bytes), all);
  index.segments.pop_back();
  (void)jpeg::plan_region(index, data.first(header.header_bytes), all);
}

void compare_kernels(const jpeg::RegionRequest& request) {
  static jpeg::TurboDecoder turbo;
  static jpeg::Decoder chosen({.turbo_where_faster = false});
  static const auto forced = [] {
    std::vector<std::unique_ptr<jpeg::Decoder>> decoders;
    for (const auto kernel : jpeg::kernels()) {
      const jpeg::DecoderOptions options{.kernel = kernel, .turbo_where_faster = false};
      decoders.push_back(std::make_unique<jpeg::Decoder>(options));
    }
    return decoders;
  }();
  Pixels expected;
  Pixels one;
  const auto& [file, header, region, scale] = request;
  const bool turbo_good = turbo.decode(file, header, region, &expected, scale).ok();
  const bool good = jpeg::decode(chosen, request, &one).ok();
  for (const auto& decoder : forced) {
    Pixels other;
    require(jpeg::decode(*decoder, request, &other).ok() == good);
    if (good) require(one.rgb == other.rgb);
  }
  if (turbo_good) require(good && one.rgb == expected.rgb);
}

// The region of a damaged file must equal that of the whole image.
void decode_damaged(Bytes file, const jpeg::Header& header, const Rect& region) {
  static jpeg::Decoder decoder({.turbo_where_faster = false, .damaged = jpeg::Damaged::kDecode});
  const Rect whole{0, 0, header.width, header.height};
  Pixels all;
  Pixels part;
  if (!jpeg::decode(decoder, {file, header, whole}, &all).ok()) return;
  require(jpeg::decode(decoder, {file, header, region}, &part).ok());
  all.crop(region);
  require(all.rgb == part.rgb);
}

// Decodes the file twice between good ones, which may run side by side with it.
void decode_beside_good_ones(Bytes file, const jpeg::Header& header, const Rect& region) {
  static const std::vector<uint8_t> neighbour =
      jpeg::rewrite(jpeg::make_jpeg({.width = 33, .height = 29, .across = 2, .down = 2}),
                    {.restart_interval = 1})
          ->file;
  static const jpeg::Header neighbour_header = *jpeg::parse_header(neighbour);
  static const Rect neighbour_whole{0, 0, neighbour_header.width, neighbour_header.height};
  static jpeg::Decoder alone({.turbo_where_faster = false});
  static jpeg::Decoder together({.turbo_where_faster = false});

  const jpeg::RegionRequest good{neighbour, neighbour_header, neighbour_whole};
  const Rect whole{0, 0, header.width, header.height};
  const std::array<jpeg::RegionRequest, 5> requests{
      {good, {file, header, whole}, good, {file, header, region}, good}};
  size_t taken = 0;
  together.decode(requests, [&](size_t i, const jpeg::Status& status, forebay::base::Rows& rows) {
    ++taken;
    Pixels expected;
    const bool ok = alone.decode(requests[i].file, requests[i].region, &expected).ok();
    require(status.ok() == ok);
    if (ok) require(jpeg::interleaved(rows) == expected.rgb);
  });
  require(taken == requests.size());
}

}  // namespace

// Selects libjpeg-turbo's plain code: its SIMD code gives other pixels where a dequantised
// coefficient does not fit 16 bits, which does not happen in real images.
extern "C" int LLVMFuzzerInitialize(int*, char***) { return ::setenv("JSIMD_FORCENONE", "1", 1); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes file(data, size);
  const auto header = jpeg::parse_header(file);
  if (!header || uint64_t{header->width} * header->height > kMostPixels) return 0;
  compose_anything(file, *header);
  static jpeg::Decoder decoder({.turbo_where_faster = false});
  Pixels before;
  const bool good = decoder.decode(file, std::nullopt, &before).ok();
  const Rect region{header->width / 3, header->height / 3, (header->width + 2) / 3,
                    (header->height + 2) / 3};
  compare_kernels({file, *header, {0, 0, header->width, header->height}});
  compare_kernels({file, *header, region});
  const uint32_t scale = 2u << size % 3;
  const Rect scaled{0, 0, (header->width + scale - 1) / scale,
                    (header->height + scale - 1) / scale};
  compare_kernels({file, *header, scaled, scale});
  decode_beside_good_ones(file, *header, region);
  decode_damaged(file, *header, region);
  const auto rewritten = jpeg::rewrite(file, {.restart_interval = size % 4});
  if (!rewritten) return 0;
  read_region(*rewritten, region, decoder);
  Pixels after;
  if (!good) return 0;
  require(decoder.decode(rewritten->file, std::nullopt, &after).ok());
  require(before.rgb == after.rgb);
  return 0;
}
