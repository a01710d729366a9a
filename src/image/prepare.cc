#include "image/prepare.h"

#include <cstring>

namespace forebay::image {
namespace {

Rect whole(Size image) { return {0, 0, image.width, image.height}; }

// Returns the draw for a viewport of an image that is resized to `resized`, or has that size.
Draw draw_of(Size image, Size resized, const Viewport& viewport, const Border& border) {
  Draw out{.region = whole(image),
           .resized = resized,
           .kept = part_shown(resized, viewport, border.kind)};
  if (!viewport.inside(resized)) out.outside = {resized, viewport, border};
  if (image == resized) {
    out.region = out.kept;
    out.resized = {out.kept.width, out.kept.height};
    out.kept = whole(out.resized);
  }
  return out;
}

Result<Draw> draw_for(const RandomResizedCrop& crop, Size size, Size image, base::Random& random) {
  return Draw{.region = draw_crop(crop, image.width, image.height, random),
              .resized = size,
              .kept = whole(size)};
}

Result<Draw> draw_for(const RandomCrop& crop, Size size, Size image, base::Random& random) {
  ASSIGN_OR_RETURN(const Size resized, resized_size(crop.resize, image));
  ASSIGN_OR_RETURN(const Viewport viewport, draw_viewport(crop, resized, size, random));
  return draw_of(image, resized, viewport, crop.border);
}

Result<Draw> draw_for(const CentreCrop& crop, Size size, Size image, base::Random&) {
  ASSIGN_OR_RETURN(const Size resized, resized_size(crop.resize, image));
  return draw_of(image, resized, centre_viewport(resized, size), {});
}

Result<Draw> draw_for(const WholeImage& crop, Size size, Size image, base::Random&) {
  ASSIGN_OR_RETURN(const Size resized, whole_size(crop, image, size));
  return draw_of(image, resized, {0, 0, resized}, {});
}

Result<Draw> draw_fixed(const FixedCrop& crop, Size image) {
  const Rect& region = crop.region;
  if (!region.inside(image.width, image.height)) {
    return base::fail(base::Code::kInvalid,
                      "crop: {} x {} pixels at ({}, {}) are no part of an image of {} x {}",
                      region.width, region.height, region.x, region.y, image.width, image.height);
  }
  return Draw{.region = region, .resized = crop.size, .kept = whole(crop.size)};
}

// Draws from the next number of the stream.
bool draw_flip(double probability, base::Random& random) {
  return probability > 0 && random.next_u32() >= (1 - probability) * 0x1p32;
}

// Returns the scaled pixels that contain a region.
Rect scaled_region(const Rect& region, uint32_t scale) {
  const uint32_t x = region.x / scale;
  const uint32_t y = region.y / scale;
  return {x, y, jpeg::divide_up(region.x + region.width, scale) - x,
          jpeg::divide_up(region.y + region.height, scale) - y};
}

// Returns the region as a box in the pixels of scaled_region().
Box box_in_scaled(const Rect& region, uint32_t scale) {
  const double pixels = scale;
  return {region.x % scale / pixels, region.y % scale / pixels, region.width / pixels,
          region.height / pixels};
}

}  // namespace

Result<Draw> draw(const Transform& transform, Size image, base::Random random,
                  const std::optional<FixedCrop>& crop) {
  const auto draw_kind = [&](const auto& kind) {
    return draw_for(kind, transform.size, image, random);
  };
  ASSIGN_OR_RETURN(Draw out,
                   crop ? draw_fixed(*crop, image) : std::visit(draw_kind, transform.crop));
  out.size = crop ? crop->size : transform.size;
  out.flip = draw_flip(transform.flip, random);
  out.vertical_flip = draw_flip(transform.vertical_flip, random);
  if (crop) RETURN_IF_ERROR(check_steps(transform.steps, out.size));
  out.actions = draw_actions(transform.steps, out.size, random);
  const RandomErasing& erasing = transform.erasing;
  if (erasing.probability > 0) out.erased = draw_erased(erasing, out.size, random);
  if (out.erased && erasing.noise) out.noise = random;
  return out;
}

// Returns the largest scale at which the region still has the pixels that it is resized to.
uint32_t decode_scale(const Transform& transform, const Encoded& source, const Draw& drawn) {
  const bool may_scale =
      source.format == Format::kJpeg && source.jpeg.coding != jpeg::Coding::kLossless;
  uint32_t scale = transform.scaled_decode && may_scale ? 8 : 1;
  while (scale > 1 && (drawn.region.width < scale * drawn.resized.width ||
                       drawn.region.height < scale * drawn.resized.height)) {
    scale /= 2;
  }
  return scale;
}

Result<BegunSample> begin_sample(const Transform& transform, const PrepareRequest& request) {
  ASSIGN_OR_RETURN(const Encoded source, read_header(request.file));
  ASSIGN_OR_RETURN(Draw drawn, draw(transform, source.size, request.random, request.crop));
  return BegunSample{source, std::move(drawn)};
}

Preparer::Preparer(const Transform& transform, const TensorOptions& options, Damaged damaged)
    : transform_(transform),
      decoder_(damaged),
      resizer_(transform.interpolation),
      writer_(options) {}

size_t Preparer::sample_bytes() const { return writer_.sample_bytes(transform_.size); }

void Preparer::clear(const PrepareRequest& request) const {
  std::memset(request.out, 0, writer_.sample_bytes(sample_size(transform_, request)));
}

void Preparer::prepare(std::span<PrepareRequest> requests) {
  decodes_.clear();
  draws_.clear();
  numbers_.clear();
  for (size_t number = 0; number < requests.size(); ++number) {
    PrepareRequest& request = requests[number];
    auto begun = begin_sample(transform_, request);
    request.status = base::status_of(begun);
    if (!begun) continue;
    auto& [source, drawn] = *begun;
    const uint32_t scale = decode_scale(transform_, source, drawn);
    decodes_.push_back({source, scaled_region(drawn.region, scale), scale});
    draws_.push_back(std::move(drawn));
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
  const Size size = drawn.size;
  const auto place = [&](uint32_t y) { return drawn.vertical_flip ? size.height - 1 - y : y; };
  if (drawn.actions.empty()) {
    resize(decoded, box, drawn, [&](uint32_t y, const PlanarRow& row) {
      writer_.write_row(row, place(y), size, drawn.flip, out);
    });
  } else {
    picture_.reset(size);
    resize(decoded, box, drawn,
           [&](uint32_t y, const PlanarRow& row) { picture_.set_row(place(y), row, drawn.flip); });
    performer_.perform(drawn.actions, &picture_);
    for (uint32_t y = 0; y < size.height; ++y) {
      writer_.write_row(picture_.rows(y), y, size, false, out);
    }
  }
  erase(drawn, out);
  TensorWriter::complete();
}

// Calls take(y, row) for each row of the sample, in any order.
template <class TakeRow>
void Preparer::resize(base::Rows& decoded, const Box& box, const Draw& drawn, const TakeRow& take) {
  if (!drawn.outside) {
    resizer_.resize(decoded, box, drawn.resized, drawn.kept, take);
    return;
  }
  view_.begin(drawn.outside->image, drawn.outside->viewport, drawn.outside->border);
  view_.each_empty(take);
  const uint32_t top = view_.part().y;
  resizer_.resize(decoded, box, drawn.resized, drawn.kept, [&](uint32_t y, const PlanarRow& row) {
    view_.each_place(top + y, [&](uint32_t at) { take(at, view_.cut(row)); });
  });
}

void Preparer::erase(const Draw& drawn, uint8_t* out) const {
  if (!drawn.erased) return;
  if (drawn.noise) {
    writer_.write_noise(*drawn.erased, drawn.size, *drawn.noise, out);
  } else {
    writer_.fill(*drawn.erased, drawn.size, transform_.erasing.value, out);
  }
}

}  // namespace forebay::image
