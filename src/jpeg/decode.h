// Decodes JPEGs to exactly the pixels of libjpeg-turbo's accurate integer path (islow, fancy
// upsampling). Sequential Huffman images with one scan are decoded by our own code. libjpeg-turbo
// decodes all other images, and damaged ones. The choice depends only on the image, never on the
// other images of a batch. A picture of the stages is in README.md beside this file.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "jpeg/format/header.h"
#include "jpeg/kernels/entropy.h"

namespace forebay::jpeg {

struct DecoderOptions {
  // The kernel for entropy decoding; when unset, the fastest is chosen.
  std::optional<EntropyKernel> kernel = {};
  // Whether libjpeg-turbo decodes images for which it is faster. Otherwise it decodes only images
  // that our own code cannot.
  bool turbo_where_faster = true;
  // With kDecode, libjpeg-turbo decodes a damaged image from its beginning, so that the pixels of a
  // region equal the whole image, cropped.
  Damaged damaged = Damaged::kRefuse;
};

struct RegionRequest {
  Bytes file;
  Header header;      // the header of `file`
  base::Rect region;  // in pixels of the scaled image
  // By how much the image is made smaller while it is decoded: 1, 2, 4 or 8. Width and height are
  // divided by it and rounded up. A pixel is about the mean of the pixels that it replaces.
  uint32_t scale = 1;
};

// Keeps its buffers between images. Used by one thread at a time. An image that fails never affects
// the next image.
class Decoder {
 public:
  explicit Decoder(const DecoderOptions& options = {});
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  // Receives the outcome of the request with this number: an error, or rows, which stay valid until
  // the call returns.
  using Take = std::function<void(size_t request, Status status, base::Rows& rows)>;

  // Decodes regions to RGB: grey is repeated, CMYK and YCCK are converted like in Pillow. The
  // pixels equal those of a full decode, cropped. Calls `take` once for each request, in any order.
  // Errors: kCorrupt (the entropy-coded data is damaged; with Damaged::kDecode, so badly that
  // libjpeg-turbo gives up; damage that the region does not need may go unseen), kTooBig,
  // kUnsupported, kInvalid (the region is not inside the scaled image, or the scale is not one of
  // the four).
  void decode(std::span<const RegionRequest> requests, const Take& take);
  // Decodes one image; the whole image when `region` is unset.
  Status decode(Bytes file, const std::optional<base::Rect>& region, base::Pixels* out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forebay::jpeg
