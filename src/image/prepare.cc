#include "image/prepare.h"

namespace forebay::image {
namespace {

Result<Draw> draw_for(const TrainTransform& train, Size image, base::Random& random) {
  Draw result;
  result.region = draw_crop(train.crop, image.width, image.height, random);
  result.resized = {train.size, train.size};
  result.kept = {0, 0, train.size, train.size};
  // The top bit: of the next number of the stream, after whatever the crop took.
  result.flip = train.flip && random.next_u32() >> 31 != 0;
  return result;
}

Result<Draw> draw_for(const EvalTransform& eval, Size image, base::Random&) {
  ASSIGN_OR_RETURN(const CentreCrop crop,
                   centre_crop(image.width, image.height, eval.resize, eval.size));
  return Draw{{0, 0, image.width, image.height}, crop.resized, crop.kept, false};
}

}  // namespace

Result<Draw> draw(const Transform& transform, Size image, base::Random random) {
  return std::visit([&](const auto& options) { return draw_for(options, image, random); },
                    transform);
}

uint32_t output_size(const Transform& transform) {
  return std::visit([](const auto& options) { return options.size; }, transform);
}

Preparer::Preparer(const Transform& transform, const TensorOptions& options)
    : transform_(transform), writer_(options) {}

size_t Preparer::sample_bytes() const {
  const uint32_t size = output_size(transform_);
  return writer_.sample_bytes({size, size});
}

Status Preparer::prepare(Bytes file, const base::Random& random, uint8_t* out) {
  ASSIGN_OR_RETURN(const Size size, read_size(file));
  ASSIGN_OR_RETURN(const Draw drawn, draw(transform_, size, random));
  RETURN_IF_ERROR(decoder_.decode(file, drawn.region, &decoded_));
  resizer_.resize(decoded_, drawn.resized, drawn.kept, &resized_);
  writer_.write(resized_, drawn.flip, out);
  return {};
}

}  // namespace forebay::image
