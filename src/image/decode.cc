#include "image/decode.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"
#include "image/png.h"
#include "image/webp.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

tl::unexpected<Status> unknown_format(Bytes file) {
  if (file.empty()) return fail(Code::kUnsupported, "image: the file is empty");
  const Bytes first = file.first(std::min<size_t>(file.size(), 8));
  return fail(Code::kUnsupported, "image: neither JPEG, PNG nor WebP: begins with {}",
              base::to_hex(first));
}

Status check_bytes(Bytes file) {
  if (file.size() <= base::kImageBytesMax) return {};
  return fail(Code::kTooBig, "image: {}; the limit is {}", base::human_bytes(file.size()),
              base::human_bytes(base::kImageBytesMax));
}

}  // namespace

Format sniff(Bytes file) {
  if (jpeg::is_jpeg(file)) return Format::kJpeg;
  if (is_png(file)) return Format::kPng;
  if (is_webp(file)) return Format::kWebp;
  return Format::kUnknown;
}

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kUnknown:
      return "unknown";
    case Format::kJpeg:
      return "JPEG";
    case Format::kPng:
      return "PNG";
    case Format::kWebp:
      return "WebP";
  }
  return "unknown";
}

Result<Size> read_size(Bytes file) {
  RETURN_IF_ERROR(check_bytes(file));
  switch (sniff(file)) {
    case Format::kJpeg: {
      ASSIGN_OR_RETURN(const jpeg::Header header, jpeg::parse_header(file));
      return Size{header.width, header.height};
    }
    case Format::kPng:
      return read_png_size(file);
    case Format::kWebp:
      return read_webp_size(file);
    case Format::kUnknown:
      break;
  }
  return unknown_format(file);
}

Status ImageDecoder::decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
  RETURN_IF_ERROR(check_bytes(file));
  const Format format = sniff(file);
  if (format == Format::kJpeg) return jpeg_.decode(file, region, out);
  if (format == Format::kUnknown) return unknown_format(file);
  ASSIGN_OR_RETURN(const Size size, read_size(file));
  if (region && !region->inside(size.width, size.height)) {
    return fail(Code::kInvalid, "{}: region {} x {} at ({}, {}) is not inside {} x {} pixels",
                format_name(format), region->width, region->height, region->x, region->y,
                size.width, size.height);
  }
  RETURN_IF_ERROR(format == Format::kPng ? decode_png(file, out) : decode_webp(file, out));
  if (region) out->crop(*region);
  return {};
}

}  // namespace forebay::image
