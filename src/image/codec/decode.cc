#include "image/codec/decode.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/limits.h"
#include "image/codec/orientation_tag.h"
#include "image/codec/png.h"
#include "image/codec/webp.h"

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
  return fail(Code::kTooBig, "image: file of {}; the limit is {}", base::human_bytes(file.size()),
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

Result<Encoded> read_header(Bytes file, bool oriented) {
  RETURN_IF_ERROR(check_bytes(file));
  Encoded source{.file = file, .format = sniff(file), .size = {}, .jpeg = {}};
  switch (source.format) {
    case Format::kJpeg: {
      ASSIGN_OR_RETURN(source.jpeg, jpeg::parse_header(file));
      source.size = {source.jpeg.width, source.jpeg.height};
      break;
    }
    case Format::kPng: {
      ASSIGN_OR_RETURN(source.size, read_png_size(file));
      break;
    }
    case Format::kWebp: {
      ASSIGN_OR_RETURN(source.size, read_webp_size(file));
      break;
    }
    case Format::kUnknown:
      return unknown_format(file);
  }
  if (oriented) {
    source.orientation = read_orientation(source.format, file);
    source.size = turned(source.size, source.orientation);
  }
  return source;
}

void ImageDecoder::decode(std::span<const DecodeRequest> requests, const Take& take) {
  jpegs_.clear();
  numbers_.clear();
  const auto show = [&](size_t number, Status status, base::Rows& rows) {
    const Orientation& orientation = requests[number].source.orientation;
    if (!status.ok() || orientation == Orientation{}) return take(number, std::move(status), rows);
    shown_.turn(rows, orientation);
    take(number, std::move(status), shown_);
  };
  for (size_t number = 0; number < requests.size(); ++number) {
    const auto& [source, region, scale] = requests[number];
    if (source.format == Format::kJpeg) {
      const Rect stored =
          stored_region(region, jpeg::divide_up(source.jpeg.width, scale),
                        jpeg::divide_up(source.jpeg.height, scale), source.orientation);
      jpegs_.push_back({source.file, source.jpeg, stored, scale});
      numbers_.push_back(number);
    } else {
      Status status = decode_other(requests[number]);
      show(number, std::move(status), other_);
    }
  }
  jpeg_.decode(jpegs_, [&](size_t number, Status status, base::Rows& rows) {
    show(numbers_[number], std::move(status), rows);
  });
}

// Decodes a PNG or WebP; the pixels go to other_.
Status ImageDecoder::decode_other(const DecodeRequest& request) {
  const auto& [source, region, scale] = request;
  FOREBAY_CHECK(scale == 1);
  const Size& size = source.size;
  if (!region.inside(size.width, size.height)) {
    return fail(Code::kInvalid, "{}: region {} x {} at ({}, {}) is not inside {} x {} pixels",
                format_name(source.format), region.width, region.height, region.x, region.y,
                size.width, size.height);
  }
  const bool png = source.format == Format::kPng;
  RETURN_IF_ERROR(png ? decode_png(source.file, &other_.pixels)
                      : decode_webp(source.file, &other_.pixels));
  const Size stored = turned(size, source.orientation);
  other_.pixels.crop(stored_region(region, stored.width, stored.height, source.orientation));
  return {};
}

Status ImageDecoder::decode(Bytes file, const std::optional<Rect>& region, Pixels* out) {
  ASSIGN_OR_RETURN(const Encoded source, read_header(file));
  const Rect whole{0, 0, source.size.width, source.size.height};
  const DecodeRequest request{source, region.value_or(whole)};
  Status result;
  decode({&request, 1}, [&](size_t, Status status, base::Rows& rows) {
    result = std::move(status);
    if (result.ok()) rows.move_to(out);
  });
  return result;
}

}  // namespace forebay::image
