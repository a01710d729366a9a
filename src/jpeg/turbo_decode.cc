#include "jpeg/turbo_decode.h"

#include <algorithm>

#include "jpeg/turbo.h"

namespace forebay::jpeg {
namespace {

using base::Code;
using base::fail;
using base::Pixels;
using base::Rect;

// Returns a * b / 255, rounded like MULDIV255 of Pillow.
int scale_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Converts like Pillow, which treats every CMYK JPEG as inverted (like Adobe writes them) and then
// applies cmyk2rgb.
void cmyk_to_rgb(const uint8_t* cmyk, uint32_t count, uint8_t* rgb) {
  for (uint32_t i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const int light = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<uint8_t>(std::clamp(light - scale_255(255 - cmyk[c], light), 0, 255));
    }
  }
}

// Whether libjpeg will smooth blocks of a progressive file that lacks scans. It then looks at
// neighbouring blocks, and a cropped decode would see fewer of them.
bool is_smoothed(const jpeg_decompress_struct& info) {
  if (!info.progressive_mode || info.coef_bits == nullptr) return false;
  for (int component = 0; component < info.num_components; ++component) {
    for (int k = 0; k < 10; ++k) {
      if (info.coef_bits[component][k] != 0) return true;
    }
  }
  return false;
}

Status check_supported(const Header& header, uint32_t scale) {
  if (header.precision != 8) {
    return fail(Code::kUnsupported, "JPEG: {} bits a sample; only 8 are supported",
                header.precision);
  }
  if (header.component_count == 2) {
    return fail(Code::kUnsupported, "JPEG: two components, whose colours are unknown");
  }
  if (header.coding == Coding::kLossless && LIBJPEG_TURBO_VERSION_NUMBER < 3'000'000) {
    return fail(Code::kUnsupported,
                "JPEG: lossless coding (SOF3), which libjpeg-turbo reads from version 3.0 on; this "
                "build has version {}.{}",
                LIBJPEG_TURBO_VERSION_NUMBER / 1'000'000,
                LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000);
  }
  if (header.coding == Coding::kLossless && scale != 1) {
    return fail(Code::kUnsupported, "JPEG: lossless coding; such an image cannot be scaled");
  }
  return {};
}

// Checks the quantisation tables. A table that the file never defined is all zeros here (see
// TurboReader). T.81 forbids any zero, but libjpeg accepts zeros, and a file may have one at a
// position that it never uses.
Status check_quantisation(const jpeg_decompress_struct& info) {
  for (int i = 0; i < info.num_components; ++i) {
    const JQUANT_TBL* table = info.comp_info[i].quant_table;
    if (table == nullptr || std::ranges::count(table->quantval, 0) == DCTSIZE2) {
      return fail(Code::kCorrupt, "JPEG: component {}: quantisation table missing or zero", i);
    }
  }
  return {};
}

}  // namespace

struct TurboDecoder::State {
  TurboReader reader;
  base::ByteVector row;

  Status start(const Header& header, uint32_t scale);
  Status decode(Bytes file, const Header& header, const Rect& region, uint32_t scale,
                Damaged damaged, Pixels* out);
  Status crop_columns(const Header& header, const Rect& region, uint32_t* left);
  Status check_end();
  Status read_rows(const Rect& region, uint32_t left, Pixels* out);
};

Status TurboDecoder::State::start(const Header& header, uint32_t scale) {
  const bool four = header.component_count == 4;
  return reader.run([four, scale](jpeg_decompress_struct& info) {
    info.out_color_space = four ? JCS_CMYK : JCS_RGB;
    info.scale_num = 1;
    info.scale_denom = scale;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&info);
  });
}

// Makes libjpeg omit columns. Fancy upsampling looks one chroma sample further. One more MCU on
// each side keeps the seam, where libjpeg treats the border of the crop like the border of the
// image, away from the region.
Status TurboDecoder::State::crop_columns(const Header& header, const Rect& region, uint32_t* left) {
  *left = 0;
  const uint32_t mcu = header.mcu_width();
  const uint32_t first = region.x / mcu;
  const uint32_t begin = first > 0 ? (first - 1) * mcu : 0;
  const uint32_t end =
      std::min(header.width, ((region.x + region.width + mcu - 1) / mcu + 1) * mcu);
  if ((begin == 0 && end == header.width) || is_smoothed(reader.info())) return {};
  JDIMENSION offset = begin;
  JDIMENSION width = end - begin;
  RETURN_IF_ERROR(reader.run([&offset, &width](jpeg_decompress_struct& info) {
    jpeg_crop_scanline(&info, &offset, &width);
  }));
  *left = offset;
  return {};
}

// Reads the rows of the region. Rows above it are decoded into one row that is overwritten, because
// jpeg_skip_scanlines is not exact for every sampling.
Status TurboDecoder::State::read_rows(const Rect& region, uint32_t left, Pixels* out) {
  const jpeg_decompress_struct& info = reader.info();
  const auto channels = static_cast<size_t>(info.output_components);
  row.resize(info.output_width * channels);
  const bool direct = channels == 3 && info.output_width == region.width;
  uint8_t* const spare = row.data();
  const auto read_row = [](jpeg_decompress_struct& i, uint8_t* to) {
    JSAMPROW rows[1] = {to};
    jpeg_read_scanlines(&i, rows, 1);
  };
  RETURN_IF_ERROR(reader.run([=, &region](jpeg_decompress_struct& i) {
    while (i.output_scanline < region.y) read_row(i, spare);
    for (uint32_t y = 0; y < region.height; ++y) {
      uint8_t* to = out->rgb.data() + size_t{y} * region.width * 3;
      read_row(i, direct ? to : spare);
      if (direct) continue;
      const uint8_t* from = spare + (region.x - left) * channels;
      if (channels == 4) {
        cmyk_to_rgb(from, region.width, to);
      } else {
        std::memcpy(to, from, size_t{region.width} * 3);
      }
    }
  }));
  return {};
}

Status TurboDecoder::State::decode(Bytes file, const Header& header, const Rect& region,
                                   uint32_t scale, Damaged damaged, Pixels* out) {
  RETURN_IF_ERROR(reader.open(file, header, damaged));
  RETURN_IF_ERROR(start(header, scale));
  const bool lossless = header.coding == Coding::kLossless;
  // A damaged image may lack the scan of a component, and then has no table for it.
  const bool ordinary = damaged == Damaged::kRefuse && !lossless;
  if (ordinary) RETURN_IF_ERROR(check_quantisation(reader.info()));
  uint32_t left = 0;
  // Scaled rows are read whole, because jpeg_crop_scanline is not exact for every sampling. It is
  // not exact for damaged images either, and it does not accept lossless ones.
  if (scale == 1 && ordinary) RETURN_IF_ERROR(crop_columns(header, region, &left));
  out->reset(region.width, region.height);
  RETURN_IF_ERROR(read_rows(region, left, out));
  const bool at_end = reader.info().output_scanline == reader.info().output_height;
  return at_end && damaged == Damaged::kRefuse ? check_end() : Status();
}

// Checks the end of the file after all rows were read. A warning means that data of the scan is
// left over; another error concerns only what follows the pixels.
Status TurboDecoder::State::check_end() {
  Status status = reader.run([](jpeg_decompress_struct& info) { jpeg_finish_decompress(&info); });
  if (!status.ok() && !reader.failed_by_warning()) return {};
  return status;
}

TurboDecoder::TurboDecoder(Damaged damaged)
    : damaged_(damaged), state_(std::make_unique<State>()) {}
TurboDecoder::~TurboDecoder() = default;
TurboDecoder::TurboDecoder(TurboDecoder&&) noexcept = default;
TurboDecoder& TurboDecoder::operator=(TurboDecoder&&) noexcept = default;

Status TurboDecoder::decode(Bytes file, const Header& header, const Rect& region, Pixels* out,
                            uint32_t scale) {
  RETURN_IF_ERROR(check_supported(header, scale));
  Status status = state_->decode(file, header, region, scale, Damaged::kRefuse, out);
  state_->reader.close();
  if (status.code() == Code::kCorrupt && damaged_ == Damaged::kDecode) {
    status = state_->decode(file, header, region, scale, Damaged::kDecode, out);
    state_->reader.close();
  }
  return status;
}

}  // namespace forebay::jpeg
