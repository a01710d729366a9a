// Makes a sample from encoded bytes: decodes, crops, resizes, flips, applies the steps of an
// augmentation, normalises, erases, and writes the sample to its place in a batch. README.md in
// this folder has a picture. prepare_gpu.h does the same on a GPU.
#pragma once

#include "image/augment/performer.h"
#include "image/augment/steps.h"
#include "image/transform/cut.h"
#include "image/transform/tensor.h"

namespace forebay::jpeg::gpu {
struct ResidentJpeg;
}  // namespace forebay::jpeg::gpu

namespace forebay::image {

constexpr Size square(uint32_t side) { return {side, side}; }

// How a sample is made from its image: cropped, mirrored, changed by steps and partly erased. The
// defaults are usual for training on photographs.
struct Transform {
  // The size of the sample. {} if each sample has its own size, with a WholeImage or steps that
  // change it.
  Size size = square(224);
  Crop crop = {};
  // The size of the crop, if steps change it to `size`. {} with a WholeImage: any size.
  std::optional<Size> crop_size = {};
  // The probabilities of mirroring left to right, and top to bottom.
  double flip = 0.5;
  double vertical_flip = 0;
  std::vector<Step> steps = {};
  RandomErasing erasing = {.probability = 0};
  Interpolation interpolation = Interpolation::kBilinear;
  // Whether JPEGs are decoded at 1/2, 1/4 or 1/8 of their size, if the crop then still has at least
  // as many pixels as it is resized to. This is faster, but gives other pixels than torchvision.
  bool scaled_decode = false;
  // Whether images are first mirrored and turned as their orientation tags say.
  bool oriented = false;
};

// The random choices for a sample: its crop, flips, actions and erased part. They need no pixels,
// so a reader can know the crop before it fetches the bytes.
struct Draw {
  Size size = {};  // the size of the sample
  Cut cut;         // of the encoded image
  bool flip = false;
  bool vertical_flip = false;
  std::vector<Action> actions = {};
  std::optional<Rect> erased = {};  // in the sample
  // The random numbers that fill the erased part, when it is filled with noise.
  std::optional<base::Random> noise = {};
};
// A crop that is given instead of drawn: a region of the image, and the size that it is resized to.
struct FixedCrop {
  Rect region;
  Size size;
};
// Draws the choices for an image that is shown with this size, and moves its annotations, if there
// are any, to where the sample shows them. `crop` replaces the crop and its size. Errors: kInvalid
// and kTooBig when the image does not fit the transform (transform/crop.h, augment/steps.h), or the
// sample would not have the transform's size; kInvalid when the crop is not inside the image.
Result<Draw> draw(const Transform& transform, Size image, base::Random random,
                  const std::optional<FixedCrop>& crop = {}, Annotations* objects = nullptr);

// Returns the factor by which an image is made smaller while it is decoded (DecodeRequest::scale).
uint32_t decode_scale(const Transform& transform, const Encoded& source, const Draw& drawn);

// A sample with a size of its own; TensorOptions say how its bytes are stored.
struct OwnSize {
  Size size = {};
  base::ByteVector bytes = {};
};

// What is known about a sample before it is decoded.
struct BegunSample {
  Encoded source;
  Draw drawn;
};

struct PrepareRequest {
  Bytes file;
  base::Random random;
  uint8_t* out = nullptr;  // room for the sample
  // The sample's place if each sample has its own size; `out` is then unused.
  OwnSize* own = nullptr;
  std::optional<FixedCrop> crop = {};  // same as for draw()
  // The header and the draw, if they are known already; null: they are found from `file`, `random`
  // and `crop`.
  const BegunSample* begun = nullptr;
  // For GpuPreparer only: a JPEG in the GPU's memory, in place of `file`.
  const jpeg::gpu::ResidentJpeg* stored = nullptr;
  Status status = {};  // the outcome; on an error, `out` must not be used
};

// Returns the size of the sample that a request makes, unless each sample has its own size.
inline Size sample_size(const Transform& transform, const PrepareRequest& request) {
  return request.crop && !transform.crop_size ? request.crop->size : transform.size;
}

// Reads the header and draws. Errors: same as read_header() and draw().
Result<BegunSample> begin_sample(const Transform& transform, const PrepareRequest& request);

// Keeps its buffers between samples. Used by one thread at a time.
class Preparer {
 public:
  Preparer(const Transform& transform, const TensorOptions& options,
           Damaged damaged = Damaged::kRefuse);
  // Makes the samples of all requests. Several small images at once are faster. Errors: same as
  // ImageDecoder::decode() and draw().
  void prepare(std::span<PrepareRequest> requests);
  Status prepare(Bytes file, const base::Random& random, uint8_t* out);
  // Fills the place of the sample with zeros.
  void clear(const PrepareRequest& request) const;
  // The number of bytes of a sample at the transform's size.
  size_t sample_bytes() const;
  size_t sample_bytes(Size size) const { return writer_.sample_bytes(size); }

 private:
  void finish(base::Rows& decoded, const Box& box, const Draw& drawn, uint8_t* out);
  void erase(const Draw& drawn, uint8_t* out) const;

  Transform transform_;
  ImageDecoder decoder_;
  Cutter cutter_;
  TensorWriter writer_;
  std::vector<DecodeRequest> decodes_;
  std::vector<Draw> draws_;      // the draw of each entry of decodes_
  std::vector<size_t> numbers_;  // the request of each entry of decodes_
  Picture picture_;              // of a sample with actions
  Performer performer_;
};

}  // namespace forebay::image
