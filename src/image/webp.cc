#include "image/webp.h"

#include <webp/decode.h>

#include "base/limits.h"

namespace forebay::image {

using base::Code;
using base::fail;

bool is_webp(Bytes file) {
  return file.size() >= 12 && base::as_text(file.first(4)) == "RIFF" &&
         base::as_text(file.subspan(8, 4)) == "WEBP";
}

Result<Size> read_webp_size(Bytes file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) {
    return fail(Code::kCorrupt, "WebP: header is damaged or cut short");
  }
  if (features.has_animation != 0) {
    return fail(Code::kUnsupported, "WebP: an animation, not an image");
  }
  const Size size{static_cast<uint32_t>(features.width), static_cast<uint32_t>(features.height)};
  RETURN_IF_ERROR(base::check_image_size("WebP", size.width, size.height));
  return size;
}

Status decode_webp(Bytes file, Pixels* out) {
  ASSIGN_OR_RETURN(const Size size, read_webp_size(file));
  out->reset(size.width, size.height);
  const auto stride = static_cast<int>(size.width * 3);
  if (WebPDecodeRGBInto(file.data(), file.size(), out->rgb.data(), out->rgb.size(), stride) ==
      nullptr) {
    return fail(Code::kCorrupt, "WebP: pixels are damaged or cut short");
  }
  return {};
}

}  // namespace forebay::image
