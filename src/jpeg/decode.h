// From a JPEG to pixels: libjpeg-turbo's accurate integer path (islow, fancy upsampling).
#pragma once

#include <memory>
#include <optional>

#include "jpeg/header.h"

namespace forebay::jpeg {

// Keeps its buffers between images. One thread at a time. An image that fails never affects the
// next one.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Decodes `region` (the whole image when unset) to RGB: grey is repeated, CMYK and YCCK are
  // converted as Pillow does. The pixels equal those of a full decode, cropped. Errors: kCorrupt
  // (damaged: any warning of libjpeg's counts), kTooBig, kUnsupported, kInvalid (the region is not
  // inside the image).
  Status decode(Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
