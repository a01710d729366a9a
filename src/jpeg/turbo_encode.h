// Encodes pixels as a JPEG through libjpeg-turbo, with the accurate integer transform (islow),
// which gives the same bytes on every processor.
#pragma once

#include <span>

#include "jpeg/format/header.h"

namespace forebay::jpeg {

// An APPn or COM segment, which only describes the image.
struct MetadataSegment {
  uint8_t code = 0;
  base::ByteVector payload;  // after the length field; at most 65,533 bytes
};

struct EncodeOptions {
  int quality = 90;  // on libjpeg's scale, 1 to 100
  // k444, k422, k420, or kGray, for which the pixels must be grey.
  Subsampling subsampling = Subsampling::k420;
  std::span<const MetadataSegment> metadata = {};  // the only APPn and COM segments, in this order
};

// Returns a baseline JPEG, grey or YCbCr, without restart markers. Errors: kNoMemory, kInvalid (a
// size or an option that libjpeg refuses). Thread-safe.
Result<base::ByteVector> turbo_encode(const base::Pixels& pixels, const EncodeOptions& options);

}  // namespace forebay::jpeg
