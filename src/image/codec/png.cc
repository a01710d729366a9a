#include "image/codec/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <span>

#include "base/limits.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

constexpr std::array<uint8_t, 8> kSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr size_t kIhdrEnd = 8 + 8 + 13;
constexpr size_t kBitsAt = 24;
constexpr size_t kColourTypeAt = 25;
constexpr std::array<uint8_t, 5> kTransparency = {'t', 'R', 'N', 'S', 0};

uint32_t load_be32(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 | uint32_t{from[2]} << 8 | from[3];
}

// What libpng's callbacks see. It has no destructor, because longjmp may leave its scope.
struct PngInput {
  Bytes file;
  size_t position = 0;
  bool is_animated = false;
  std::array<char, 160> message{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto* const source = static_cast<PngInput*>(png_get_error_ptr(png));
  const size_t length = std::min(std::strlen(text), source->message.size() - 1);
  std::memcpy(source->message.data(), text, length);
  source->message[length] = 0;
  longjmp(png_jmpbuf(png), 1);
}

// Extra bytes after complete pixel data are no damage. Other warnings about this data are errors,
// for example of a wrong checksum inside it.
void on_warning(png_structp png, png_const_charp text) {
  const std::string_view warning(text);
  const bool left_over =
      warning.ends_with("Extra compressed data") || warning.ends_with("Too much image data");
  if (warning.starts_with("IDAT") && !left_over) on_error(png, text);
}

void on_read(png_structp png, png_bytep to, size_t length) {
  auto* const source = static_cast<PngInput*>(png_get_io_ptr(png));
  if (length > source->file.size() - source->position) png_error(png, "file is cut short");
  std::memcpy(to, source->file.data() + source->position, length);
  source->position += length;
}

// Whether the image is 16-bit grey. Pillow opens it in a separate mode whose conversion to RGB
// clips at 255; every other 16-bit kind keeps the high byte.
bool is_clipped_grey(png_structp png, png_infop info) {
  return png_get_color_type(png, info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) == 16;
}

void ask_for_rgb(png_structp png) {
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

// Converts from the end of the row, because three bytes go where two came from.
void clip_grey(uint8_t* row, size_t width) {
  for (size_t x = width; x-- > 0;) {
    const uint8_t value = row[2 * x] != 0 ? 255 : row[2 * x + 1];
    std::memset(row + 3 * x, value, 3);
  }
}

// Spreads labels over pixels, from the end of the row like clip_grey().
void spread_labels(uint8_t* row, size_t width, size_t label_bytes) {
  for (size_t x = width; x-- > 0;) {
    const uint8_t high = label_bytes == 2 ? row[2 * x] : uint8_t{0};
    const uint8_t low = label_bytes == 2 ? row[2 * x + 1] : row[x];
    uint8_t* const pixel = row + 3 * x;
    pixel[0] = low;
    pixel[1] = high;
    pixel[2] = 0;
  }
}

// libpng's reader of one file.
class Reader {
 public:
  explicit Reader(Bytes file) : source{file} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Runs read(), which calls libpng and returns whether it succeeded.
  template <class Read>
  Status run(Read read) {
    if (info == nullptr) return fail(Code::kNoMemory, "PNG: no memory for the decoder");
    if (!read()) return fail(Code::kCorrupt, "PNG: {}", source.message.data());
    return {};
  }

  PngInput source;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

void begin(png_structp png, PngInput* source) {
  png_set_user_limits(png, base::kImageSideMax, base::kImageSideMax);
  png_set_chunk_malloc_max(png, base::kImageBytesMax);
  png_set_read_fn(png, source, on_read);
}

enum class Wanted : uint8_t { kRgb, kLabels };

// Everything that may call longjmp. Nothing here has a destructor. Returns false on an error.
bool read_rows(png_structp png, png_infop info, Wanted wanted, PngInput* source, Pixels* out) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  begin(png, source);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kTransparency.data(), 1);
  png_read_info(png, info);
  const bool is_wide = png_get_bit_depth(png, info) == 16;
  const bool clipped = wanted == Wanted::kRgb && is_clipped_grey(png, info);
  if (wanted == Wanted::kRgb && !clipped) ask_for_rgb(png);
  if (wanted == Wanted::kLabels) png_set_packing(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const size_t stride = size_t{out->width} * 3;
  const size_t label_bytes = is_wide ? 2 : 1;
  const size_t pixel_bytes = wanted == Wanted::kLabels ? label_bytes : clipped ? 2 : 3;
  const size_t expected = out->width * pixel_bytes;
  if (png_get_image_width(png, info) != out->width ||
      png_get_image_height(png, info) != out->height || png_get_rowbytes(png, info) != expected) {
    png_error(png, "header contradicts itself");
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t y = 0; y < out->height; ++y) {
      png_read_row(png, out->rgb.data() + y * stride, nullptr);
    }
  }
  // Reading the last row also checked the checksums after the pixels' data. What follows does not
  // matter.
  for (size_t y = 0; y < out->height; ++y) {
    uint8_t* const row = out->rgb.data() + y * stride;
    if (clipped) clip_grey(row, out->width);
    if (wanted == Wanted::kLabels) spread_labels(row, out->width, label_bytes);
  }
  return true;
}

Status decode(Bytes file, Wanted wanted, Pixels* out) {
  ASSIGN_OR_RETURN(const Size size, read_png_size(file));
  Reader reader(file);
  out->reset(size.width, size.height);
  return reader.run(
      [&] { return read_rows(reader.png, reader.info, wanted, &reader.source, out); });
}

// Notes the chunk with which an animation begins. Such chunks are never kept.
int on_unknown(png_structp png, png_unknown_chunkp chunk) {
  if (std::memcmp(chunk->name, "acTL", 5) == 0) {
    static_cast<PngInput*>(png_get_user_chunk_ptr(png))->is_animated = true;
  }
  return 1;
}

// Reads all chunks before the pixels' data. Nothing here has a destructor. Returns false on an
// error.
bool read_chunks(png_structp png, png_infop info, PngInput* source) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  begin(png, source);
  png_set_read_user_chunk_fn(png, source, on_unknown);
  png_read_info(png, info);
  return true;
}

base::ByteVector read_icc(png_const_structp png, png_infop info) {
  png_charp name = nullptr;
  int compression = 0;
  png_bytep profile = nullptr;
  png_uint_32 bytes = 0;
  if (png_get_iCCP(png, info, &name, &compression, &profile, &bytes) == 0) return {};
  return {profile, profile + bytes};
}

base::ByteVector read_exif(png_const_structp png, png_infop info) {
  png_bytep exif = nullptr;
  png_uint_32 bytes = 0;
  if (png_get_eXIf_1(png, info, &bytes, &exif) == 0) return {};
  return {exif, exif + bytes};
}

base::ByteVector read_xmp(png_const_structp png, png_infop info) {
  png_textp texts = nullptr;
  int count = 0;
  png_get_text(png, info, &texts, &count);
  for (const png_text& text : std::span(texts, static_cast<size_t>(count))) {
    if (std::string_view(text.key) != "XML:com.adobe.xmp") continue;
    return {text.text, text.text + std::max(text.text_length, text.itxt_length)};
  }
  return {};
}

// Errors: kUnsupported if a mask's file is not a PNG; those of read_png_size().
Status check_mask(Bytes file) {
  if (!is_png(file)) {
    return fail(Code::kUnsupported, "a map of labels must be a PNG, but this file is not one");
  }
  return base::status_of(read_png_size(file));
}

}  // namespace

bool is_png(Bytes file) {
  return file.size() >= kSignature.size() &&
         std::memcmp(file.data(), kSignature.data(), kSignature.size()) == 0;
}

Result<Size> read_png_size(Bytes file) {
  if (file.size() < kIhdrEnd || base::as_text(file.subspan(12, 4)) != "IHDR") {
    return fail(Code::kCorrupt, "PNG: header is damaged or cut short");
  }
  const Size size{load_be32(file.data() + 16), load_be32(file.data() + 20)};
  if (size.width == 0 || size.height == 0)
    return fail(Code::kCorrupt, "PNG: its width or height is 0");
  RETURN_IF_ERROR(base::check_image_size("PNG", size.width, size.height));
  return size;
}

Status decode_png(Bytes file, Pixels* out) { return decode(file, Wanted::kRgb, out); }

bool has_png_colours(Bytes file) {
  if (!is_png(file) || file.size() <= kColourTypeAt) return false;
  const uint8_t kind = file[kColourTypeAt];
  return kind != PNG_COLOR_TYPE_GRAY && kind != PNG_COLOR_TYPE_PALETTE;
}

Status decode_png_colours(Bytes file, Pixels* out) {
  RETURN_IF_ERROR(check_mask(file));
  if (png_bits(file) == 16) {
    return fail(Code::kUnsupported,
                "PNG: colours that stand for classes must have 8 bits a channel, not 16");
  }
  return decode_png(file, out);
}

Status decode_png_labels(Bytes file, Pixels* out) {
  RETURN_IF_ERROR(check_mask(file));
  if (has_png_colours(file)) {
    return fail(Code::kUnsupported,
                "PNG: a map of labels must be grey or have a palette, but this one has colours "
                "or an alpha channel; "
                "Dataset(…, palette=…) says which classes they stand for");
  }
  return decode(file, Wanted::kLabels, out);
}

uint32_t png_bits(Bytes file) { return file[kBitsAt]; }

Result<Content> read_png_content(Bytes file) {
  Reader reader(file);
  RETURN_IF_ERROR(reader.run([&] { return read_chunks(reader.png, reader.info, &reader.source); }));
  const auto [png, info] = std::pair(reader.png, reader.info);
  const auto colours = png_get_color_type(png, info);
  const bool is_transparent =
      (colours & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  // The entries of a palette have 8 bits a channel, regardless of the bits of an index.
  const bool has_8_bits = colours == PNG_COLOR_TYPE_PALETTE || png_get_bit_depth(png, info) == 8;
  return Content{
      .is_grey = colours == PNG_COLOR_TYPE_GRAY,
      .is_opaque_8_bit = has_8_bits && !is_transparent && !reader.source.is_animated,
      .metadata = {
          .exif = read_exif(png, info), .icc = read_icc(png, info), .xmp = read_xmp(png, info)}};
}

}  // namespace forebay::image
