// A sample's whole way from encoded bytes to its place in a batch.
#pragma once

#include "image/crop.h"
#include "image/resize.h"
#include "image/tensor.h"

namespace forebay::jpeg::gpu {
struct Stored;
}  // namespace forebay::jpeg::gpu

namespace forebay::image {

constexpr Size square(uint32_t side) { return {side, side}; }

// A sample is cut from its image, mirrored and partly erased. As it stands: usual for training on
// photographs.
struct Transform {
  Size size = square(224);  // of the sample
  std::variant<RandomResizedCrop, RandomCrop, CentreCrop, WholeImage> crop = {};
  // Probabilities of being mirrored left to right, and top to bottom.
  double flip = 0.5;
  double vertical_flip = 0;
  RandomErasing erasing = {.probability = 0};
  Interpolation interpolation = Interpolation::kBilinear;
  // JPEGs are made smaller by 2, 4 or 8 while they are decoded, as far as their crop then still has
  // the pixels that it is resized to: faster, but other pixels than torchvision's.
  bool scaled_decode = false;
};

// What is drawn for a sample: its crop, flips and erased part. Needs no pixels, so a reader can
// know the crop before it fetches the bytes.
struct Draw {
  Size size = {};  // of the sample
  Rect region;     // of the encoded image
  Size resized;    // the region
  Rect kept;       // of the resized region
  // Where the sample reaches over the resized image's sides: through `window` it is seen, of which
  // `kept` is what is shown of the image.
  struct Outside {
    Size image;
    Window window;
    Border border;
  };
  std::optional<Outside> outside = {};
  bool flip = false;
  bool vertical_flip = false;
  std::optional<Rect> erased = {};  // of the output
  // What the erased part is filled with, where that is noise.
  std::optional<base::Random> noise = {};
};
// A part of the image, and what it is resized to.
struct FixedCrop {
  Rect region;
  Size size;
};
// `crop`: in place of the transform's crop and size. kInvalid and kTooBig where the image does not
// fit the transform (image/crop.h), kInvalid where the crop is not inside the image.
Result<Draw> draw(const Transform& transform, Size image, base::Random random,
                  const std::optional<FixedCrop>& crop = {});

// How much smaller an image is made while it is decoded (DecodeRequest::scale).
uint32_t decode_scale(const Transform& transform, const Encoded& source, const Draw& drawn);

struct PrepareRequest {
  Bytes file;
  base::Random random;
  uint8_t* out = nullptr;              // room for the sample
  std::optional<FixedCrop> crop = {};  // as draw()'s
  // GpuPreparer only, in place of a file.
  const jpeg::gpu::Stored* stored = nullptr;
  Status status = {};  // afterwards; on an error nothing of `out` may be used
};

// Of the sample.
inline Size sample_size(const Transform& transform, const PrepareRequest& request) {
  return request.crop ? request.crop->size : transform.size;
}

// What is known of a sample before it is decoded.
struct BegunSample {
  Encoded source;
  Draw drawn;
};
// Errors as read_header and draw.
Result<BegunSample> begin_sample(const Transform& transform, const PrepareRequest& request);

// Keeps its buffers between samples. One thread at a time.
class Preparer {
 public:
  Preparer(const Transform& transform, const TensorOptions& options,
           Damaged damaged = Damaged::kRefuse);
  // Decodes, crops, resizes, flips, normalises and erases. Small images are faster several at
  // once. Errors as ImageDecoder::decode and draw.
  void prepare(std::span<PrepareRequest> requests);
  Status prepare(Bytes file, const base::Random& random, uint8_t* out);
  // Zeros in place of the sample.
  void clear(const PrepareRequest& request) const;
  // Of a sample of the transform's size.
  size_t sample_bytes() const;

 private:
  void finish(base::Rows& decoded, const Box& box, const Draw& drawn, uint8_t* out);
  void erase(const Draw& drawn, uint8_t* out) const;

  Transform transform_;
  ImageDecoder decoder_;
  Resizer resizer_;
  TensorWriter writer_;
  std::vector<DecodeRequest> decodes_;
  std::vector<Draw> draws_;      // of decodes_
  std::vector<size_t> numbers_;  // of decodes_, among all requests
  WindowView view_;
};

}  // namespace forebay::image
