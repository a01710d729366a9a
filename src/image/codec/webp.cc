#include "image/codec/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "base/limits.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

using Demuxer = std::unique_ptr<WebPDemuxer, DeleteDemuxer>;

// Returns null for a file that is damaged or cut short. The file must stay in memory.
Demuxer demux(Bytes file) {
  const WebPData data{file.data(), file.size()};
  return Demuxer(WebPDemux(&data));
}

Result<WebPBitstreamFeatures> read_features(Bytes file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) == VP8_STATUS_OK) return features;
  return fail(Code::kCorrupt, "WebP: header is damaged or cut short");
}

// Decodes into the pixels of `place`, which must be inside `out`.
Status decode_into(const uint8_t* data, size_t bytes, const Rect& place, Pixels* out) {
  const size_t stride = size_t{out->width} * 3;
  const size_t first = place.y * stride + size_t{place.x} * 3;
  if (WebPDecodeRGBInto(data, bytes, out->rgb.data() + first, out->rgb.size() - first,
                        static_cast<int>(stride)) != nullptr) {
    return {};
  }
  return fail(Code::kCorrupt, "WebP: pixels are damaged or cut short");
}

// Decodes the first frame to `out`, which has the size of the canvas.
Status decode_first_frame(Bytes file, Pixels* out) {
  const auto demuxer = demux(file);
  WebPIterator frame{};
  if (demuxer == nullptr || WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) {
    return fail(Code::kCorrupt, "WebP: animation is damaged or cut short");
  }
  const Rect place{static_cast<uint32_t>(frame.x_offset), static_cast<uint32_t>(frame.y_offset),
                   static_cast<uint32_t>(frame.width), static_cast<uint32_t>(frame.height)};
  const Bytes encoded(frame.fragment.bytes, frame.fragment.size);
  WebPDemuxReleaseIterator(&frame);
  // libwebp decodes with the size in the frame itself, so that size is checked.
  const auto own = read_features(encoded);
  const bool fits = own && place.inside(out->width, out->height) &&
                    static_cast<uint32_t>(own->width) == place.width &&
                    static_cast<uint32_t>(own->height) == place.height;
  if (!fits) return fail(Code::kCorrupt, "WebP: first frame does not fit the animation");
  std::ranges::fill(out->rgb, uint8_t{0});
  return decode_into(encoded.data(), encoded.size(), place, out);
}

base::ByteVector chunk_of(const WebPDemuxer* demuxer, const char* name) {
  WebPChunkIterator found{};
  if (WebPDemuxGetChunk(demuxer, name, 1, &found) == 0) return {};
  base::ByteVector out(found.chunk.bytes, found.chunk.bytes + found.chunk.size);
  WebPDemuxReleaseChunkIterator(&found);
  return out;
}

}  // namespace

bool is_webp(Bytes file) {
  return file.size() >= 12 && base::as_text(file.first(4)) == "RIFF" &&
         base::as_text(file.subspan(8, 4)) == "WEBP";
}

Result<Size> read_webp_size(Bytes file) {
  ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, read_features(file));
  const Size size{static_cast<uint32_t>(features.width), static_cast<uint32_t>(features.height)};
  RETURN_IF_ERROR(base::check_image_size("WebP", size.width, size.height));
  return size;
}

Status decode_webp(Bytes file, Pixels* out) {
  ASSIGN_OR_RETURN(const Size size, read_webp_size(file));
  ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, read_features(file));
  out->reset(size.width, size.height);
  if (features.has_animation != 0) return decode_first_frame(file, out);
  return decode_into(file.data(), file.size(), {0, 0, size.width, size.height}, out);
}

Result<Content> read_webp_content(Bytes file) {
  ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, read_features(file));
  Content out;
  out.is_opaque_8_bit = features.has_alpha == 0 && features.has_animation == 0;
  // The pixels may be complete although the end of the file is damaged; such a file has no
  // metadata.
  const Demuxer demuxer = demux(file);
  if (demuxer == nullptr) return out;
  out.metadata.exif = chunk_of(demuxer.get(), "EXIF");
  out.metadata.icc = chunk_of(demuxer.get(), "ICCP");
  out.metadata.xmp = chunk_of(demuxer.get(), "XMP ");
  return out;
}

}  // namespace forebay::image
