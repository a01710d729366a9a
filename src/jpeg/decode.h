// From JPEGs to pixels, those of libjpeg-turbo's accurate integer path (islow, fancy upsampling).
// Sequential Huffman images of one scan are decoded here; libjpeg-turbo decodes all others, and
// those that are damaged. Which one it is depends on the image alone, never on those beside it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "jpeg/entropy.h"
#include "jpeg/header.h"

namespace forebay::jpeg {

struct DecoderOptions {
  // Unset: the fastest.
  std::optional<EntropyKernel> kernel = {};
  // Whether images that libjpeg-turbo decodes faster go its way; else, those that it alone can.
  bool turbo_where_faster = true;
  // kDecode: what is damaged is decoded by libjpeg-turbo from its beginning, so that a region's
  // pixels are those of the whole image, cropped.
  Damaged damaged = Damaged::kRefuse;
};

struct DecodeRequest {
  Bytes file;
  Header header;      // the file's
  base::Rect region;  // in pixels of the scaled image
  // 1, 2, 4 or 8: made smaller by so much while it is decoded, to the width and height divided,
  // rounded up. A pixel is about the mean of those in its place.
  uint32_t scale = 1;
};

// Keeps its buffers between images. One thread at a time. An image that fails never affects the
// next one.
class Decoder {
 public:
  explicit Decoder(const DecoderOptions& options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // What becomes of a request, by its number: an error, or rows, which are good until the call
  // returns.
  using Take = std::function<void(size_t request, Status status, base::Rows& rows)>;

  // Decodes regions to RGB: grey is repeated, CMYK and YCCK are converted as Pillow does. The
  // pixels equal those of a full decode, cropped. Calls `take` once for each request, in any order.
  // Errors: kCorrupt (the pixels' data is damaged, with DecoderOptions::damaged so badly that
  // libjpeg-turbo gives up; what the region does not need may go unseen), kTooBig, kUnsupported,
  // kInvalid (the region is not inside the scaled image, or the scale is none of these).
  void decode(std::span<const DecodeRequest> requests, const Take& take);
  // One image; all of it when `region` is unset.
  Status decode(Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
