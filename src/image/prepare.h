// A sample's whole way from encoded bytes to its place in a batch.
#pragma once

#include <variant>

#include "image/crop.h"
#include "image/resize.h"
#include "image/tensor.h"

namespace forebay::image {

// Training: a random crop of size x size, mirrored with probability 1/2 (or never), then part of it
// erased.
struct TrainTransform {
  uint32_t size = 224;
  std::variant<RandomResizedCrop, RandomPaddedCrop> crop = {};
  bool flip = true;
  RandomErasing erasing = {.probability = 0};
  Interpolation interpolation = Interpolation::kBilinear;
  bool scaled_decode = false;  // as below
};
// Validation: the short side resized to `resize`, then the centre size x size.
struct EvalTransform {
  uint32_t size = 224;
  uint32_t resize = 256;
  Interpolation interpolation = Interpolation::kBilinear;
  // JPEGs are made smaller by 2, 4 or 8 while they are decoded, as far as their crop then still has
  // the pixels that it is resized to: faster, but other pixels than torchvision's.
  bool scaled_decode = false;
};
using Transform = std::variant<TrainTransform, EvalTransform>;

// What is drawn for a sample: its crop, flip and erased part. Needs no pixels, so a reader can know
// the crop before it fetches the bytes.
struct Draw {
  Rect region;  // of the encoded image
  Size resized;
  uint32_t padding = 0;  // around the resized region, mirrored
  Rect kept;             // of the padded region
  bool flip = false;
  std::optional<Rect> erased = {};  // of the output
};
Result<Draw> draw(const Transform& transform, Size image, base::Random random);

uint32_t output_size(const Transform& transform);

struct PrepareRequest {
  Bytes file;
  base::Random random;
  uint8_t* out = nullptr;  // sample_bytes() of room
  Status status = {};      // afterwards; on an error nothing of `out` may be used
};

// Keeps its buffers between samples. One thread at a time.
class Preparer {
 public:
  Preparer(const Transform& transform, const TensorOptions& options);
  // Decodes, crops, resizes, flips, normalises and erases. Small images are faster several at
  // once. Errors as ImageDecoder::decode.
  void prepare(std::span<PrepareRequest> requests);
  Status prepare(Bytes file, const base::Random& random, uint8_t* out);
  size_t sample_bytes() const;

 private:
  void finish(base::Rows& decoded, const Box& box, const Draw& drawn, uint8_t* out);

  Transform transform_;
  bool scaled_decode_;
  ImageDecoder decoder_;
  Resizer resizer_;
  TensorWriter writer_;
  std::vector<DecodeRequest> decodes_;
  std::vector<Draw> draws_;      // of decodes_
  std::vector<size_t> numbers_;  // of decodes_, among all requests
  PaddedCrop padded_crop_;
};

}  // namespace forebay::image
