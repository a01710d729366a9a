#include "image/shrink.h"

#include <algorithm>

#include "image/codec/jpeg_metadata.h"
#include "image/codec/png.h"
#include "image/codec/webp.h"
#include "image/transform/crop.h"

namespace forebay::image {

using base::ByteVector;
using base::Code;
using base::fail;
using jpeg::Subsampling;

namespace {

// How an image is encoded again, and the metadata that it keeps.
struct Target {
  Subsampling subsampling = Subsampling::k420;
  std::vector<jpeg::MetadataSegment> metadata;
};

Subsampling kept_subsampling(const jpeg::Header& header) {
  const Subsampling own = header.subsampling();
  const bool is_kept =
      own == Subsampling::kGray || own == Subsampling::k444 || own == Subsampling::k422;
  return is_kept ? own : Subsampling::k420;
}

Result<Target> target_for(const Encoded& source) {
  if (source.format == Format::kJpeg) {
    return Target{kept_subsampling(source.jpeg), segments_of_jpeg(source)};
  }
  ASSIGN_OR_RETURN(const Content content, source.format == Format::kPng
                                              ? read_png_content(source.file)
                                              : read_webp_content(source.file));
  if (!content.is_opaque_8_bit) {
    return fail(Code::kUnsupported, "{}: transparent, animated or not 8 bits a channel",
                format_name(source.format));
  }
  return Target{content.is_grey ? Subsampling::kGray : Subsampling::k420,
                segments_for(content.metadata)};
}

}  // namespace

Status Shrinker::resize(const Encoded& source, const Size& size) {
  const DecodeRequest request{source, {0, 0, source.size.width, source.size.height}};
  Status result;
  decoder_.decode({&request, 1}, [&](size_t, Status status, base::Rows& rows) {
    result = std::move(status);
    if (!result.ok()) return;
    resizer_.resize(rows, whole(rows), size, {0, 0, size.width, size.height}, &resized_);
  });
  return result;
}

Result<std::optional<ByteVector>> Shrinker::shrink(Bytes file) {
  ASSIGN_OR_RETURN(const Encoded source, read_header(file));
  if (std::min(source.size.width, source.size.height) <= options_.short_side) return std::nullopt;
  ASSIGN_OR_RETURN(const Target target, target_for(source));
  const ShortSide short_side{.pixels = static_cast<uint32_t>(options_.short_side)};
  ASSIGN_OR_RETURN(const Size size, resized_size(short_side, source.size));
  RETURN_IF_ERROR(resize(source, size));
  ASSIGN_OR_RETURN(ByteVector smaller,
                   jpeg::turbo_encode(resized_, {.quality = static_cast<int>(options_.quality),
                                                 .subsampling = target.subsampling,
                                                 .metadata = target.metadata}));
  return smaller;
}

}  // namespace forebay::image
