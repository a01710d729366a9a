#include "image/prepare.h"

namespace forebay::image {
namespace {

Result<Draw> draw_crop_for(const RandomResizedCrop& crop, uint32_t size, Size image,
                           base::Random& random) {
  return Draw{.region = draw_crop(crop, image.width, image.height, random),
              .resized = {size, size},
              .kept = {0, 0, size, size}};
}

Result<Draw> draw_crop_for(const RandomPaddedCrop& crop, uint32_t size, Size image,
                           base::Random& random) {
  ASSIGN_OR_RETURN(const CentreCrop whole, centre_crop(image.width, image.height, size, size));
  const Size resized = whole.resized;
  return Draw{.region = {0, 0, image.width, image.height},
              .resized = resized,
              .padding = crop.padding,
              .kept = draw_padded_crop(crop, resized.width, resized.height, size, random)};
}

Result<Draw> draw_for(const TrainTransform& train, Size image, base::Random& random) {
  ASSIGN_OR_RETURN(
      Draw result,
      std::visit([&](const auto& crop) { return draw_crop_for(crop, train.size, image, random); },
                 train.crop));
  // The top bit: of the next number of the stream, after whatever the crop took.
  result.flip = train.flip && random.next_u32() >> 31 != 0;
  if (train.erasing.probability > 0) result.erased = draw_erased(train.erasing, train.size, random);
  return result;
}

Result<Draw> draw_for(const EvalTransform& eval, Size image, base::Random&) {
  ASSIGN_OR_RETURN(const CentreCrop crop,
                   centre_crop(image.width, image.height, eval.resize, eval.size));
  return Draw{
      .region = {0, 0, image.width, image.height}, .resized = crop.resized, .kept = crop.kept};
}

// The largest at which a region has at least the pixels that it is resized to.
uint32_t scale_for(const Draw& drawn) {
  uint32_t scale = 8;
  while (scale > 1 && (drawn.region.width < scale * drawn.resized.width ||
                       drawn.region.height < scale * drawn.resized.height)) {
    scale /= 2;
  }
  return scale;
}

// The scaled pixels in which a region lies.
Rect scaled_region(const Rect& region, uint32_t scale) {
  const uint32_t x = region.x / scale;
  const uint32_t y = region.y / scale;
  return {x, y, jpeg::divide_up(region.x + region.width, scale) - x,
          jpeg::divide_up(region.y + region.height, scale) - y};
}

// The region in these pixels.
Box box_in_scaled(const Rect& region, uint32_t scale) {
  const double pixels = scale;
  return {region.x % scale / pixels, region.y % scale / pixels, region.width / pixels,
          region.height / pixels};
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
    : transform_(transform),
      scaled_decode_(std::visit([](const auto& t) { return t.scaled_decode; }, transform)),
      resizer_(std::visit([](const auto& t) { return t.interpolation; }, transform)),
      writer_(options) {}

size_t Preparer::sample_bytes() const {
  const uint32_t size = output_size(transform_);
  return writer_.sample_bytes({size, size});
}

void Preparer::prepare(std::span<PrepareRequest> requests) {
  decodes_.clear();
  draws_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    PrepareRequest& request = requests[number];
    const auto source = read_header(request.file);
    const auto drawn = source ? draw(transform_, source->size, request.random)
                              : Result<Draw>(tl::unexpected(source.error()));
    request.status = base::status_of(drawn);
    if (!drawn) continue;
    const bool scaled = scaled_decode_ && source->format == Format::kJpeg;
    const uint32_t scale = scaled ? scale_for(*drawn) : 1;
    decodes_.push_back({*source, scaled_region(drawn->region, scale), scale});
    draws_.push_back(*drawn);
    numbers_.push_back(number);
  }
  decoder_.decode(decodes_, [&](size_t decode, Status status, base::Rows& rows) {
    PrepareRequest& request = requests[numbers_[decode]];
    request.status = std::move(status);
    if (!request.status.ok()) return;
    const Draw& drawn = draws_[decode];
    finish(rows, box_in_scaled(drawn.region, decodes_[decode].scale), drawn, request.out);
  });
}

Status Preparer::prepare(Bytes file, const base::Random& random, uint8_t* out) {
  PrepareRequest request{.file = file, .random = random, .out = out};
  prepare({&request, 1});
  return request.status;
}

void Preparer::finish(base::Rows& decoded, const Box& box, const Draw& drawn, uint8_t* out) {
  const Size size{drawn.kept.width, drawn.kept.height};
  if (drawn.padding == 0) {
    resizer_.resize(decoded, box, drawn.resized, drawn.kept, [&](uint32_t y, const PlanarRow& row) {
      writer_.write_row(row, y, size, drawn.flip, out);
    });
  } else {
    const Rect all{0, 0, drawn.resized.width, drawn.resized.height};
    padded_crop_.begin(drawn.resized, drawn.padding, drawn.kept);
    resizer_.resize(decoded, box, drawn.resized, all, [&](uint32_t y, const PlanarRow& row) {
      padded_crop_.each_place(y, [&](uint32_t at) {
        writer_.write_row(padded_crop_.cut(row), at, size, drawn.flip, out);
      });
    });
  }
  if (drawn.erased) writer_.erase(*drawn.erased, size, out);
  TensorWriter::complete();
}

}  // namespace forebay::image
