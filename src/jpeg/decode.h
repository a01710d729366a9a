// From a JPEG to pixels, those of libjpeg-turbo's accurate integer path (islow, fancy upsampling).
// Sequential Huffman images of one scan with restart markers go our own way; all others, and those
// that are damaged, libjpeg-turbo's.
#pragma once

#include <memory>
#include <optional>

#include "jpeg/entropy.h"
#include "jpeg/header.h"

namespace forebay::jpeg {

struct DecoderOptions {
  EntropyKernel kernel = best_entropy_kernel();
  // Images with fewer restart segments go libjpeg-turbo's way, which is the faster one for them so
  // far.
  uint32_t segments_min = 16;
};

struct DecodeRequest {
  Bytes file;
  std::optional<base::Rect> region;  // the whole image when unset
  base::Pixels* out = nullptr;
  Status status = {};  // afterwards
};

// Keeps its buffers between images. One thread at a time. An image that fails never affects the
// next one.
class Decoder {
 public:
  explicit Decoder(const DecoderOptions& options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Decodes regions to RGB: grey is repeated, CMYK and YCCK are converted as Pillow does. The
  // pixels equal those of a full decode, cropped. Errors: kCorrupt (damaged: any warning of
  // libjpeg's counts; what the region does not need may go unseen), kTooBig, kUnsupported, kInvalid
  // (the region is not inside the image).
  void decode(std::span<DecodeRequest> requests);
  Status decode(Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
