#include "image/prepare.h"

#include <cstring>

#include "image/augment/crop_first.h"
#include "image/transform/framed.h"

namespace forebay::image {
namespace {

Result<Cut> fixed_cut(const FixedCrop& crop, Size image) {
  const Rect& region = crop.region;
  if (!region.inside(image.width, image.height)) {
    return base::fail(base::Code::kInvalid,
                      "crop: {} x {} pixels at ({}, {}) do not lie inside an image of {} x {}",
                      region.width, region.height, region.x, region.y, image.width, image.height);
  }
  return Cut{.region = region, .resized = crop.size, .kept = whole(crop.size)};
}

// Draws with the stream's next number.
bool draw_flip(double probability, base::Random& random) {
  return probability > 0 && random.next_u32() >= (1 - probability) * 0x1p32;
}

// Crops the result of the crop and the flips after it to `part`.
void crop_to(const Rect& part, Draw* drawn) {
  const Size size = drawn->cut.size();
  if (part == whole(size)) return;
  Rect stored = part;  // before the flips
  if (drawn->flip) stored.x = size.width - part.x - part.width;
  if (drawn->vertical_flip) stored.y = size.height - part.y - part.height;
  const auto crop_of = [&](const Rect& rect) {
    return viewport_cut(size, size, {rect.x, rect.y, {rect.width, rect.height}}, {});
  };
  if (const auto both = joined(drawn->cut, crop_of(stored))) {
    drawn->cut = *both;
  } else if (!drawn->cut.outside) {
    const Rect& kept = drawn->cut.kept;
    drawn->cut.kept = {kept.x + stored.x, kept.y + stored.y, stored.width, stored.height};
  } else {
    drawn->actions.insert(drawn->actions.begin(), crop_of(part));
  }
}

// Merges the first actions into the crop and the flips after it, as long as the pixels stay the
// same.
void join_first(Draw* drawn) {
  size_t joins = 0;
  for (const Action& action : drawn->actions) {
    if (const auto* const flip = std::get_if<Flip>(&action)) {
      drawn->flip ^= flip->across;
      drawn->vertical_flip ^= flip->down;
    } else {
      const auto* const cut = std::get_if<Cut>(&action);
      const bool flipped = drawn->flip || drawn->vertical_flip;
      const auto both = cut != nullptr && !flipped ? joined(drawn->cut, *cut) : std::nullopt;
      if (!both) break;
      drawn->cut = *both;
    }
    ++joins;
  }
  drawn->actions.erase(drawn->actions.begin(),
                       drawn->actions.begin() + static_cast<ptrdiff_t>(joins));
}

// If the crop puts the picture into a frame, and the first action resizes both, moves the frame
// from the crop to the actions, which need not store it.
void part_frame(Draw* drawn) {
  if (drawn->actions.empty() || !framed(drawn->cut)) return;
  const auto* const next = std::get_if<Cut>(&drawn->actions.front());
  if (next == nullptr || !next->resizes()) return;
  Cut frame = drawn->cut;
  frame.region = whole(frame.resized);
  drawn->cut.outside.reset();
  drawn->cut.kept = whole(frame.resized);
  const Flip flip{drawn->flip, drawn->vertical_flip};
  drawn->flip = drawn->vertical_flip = false;
  drawn->actions.insert(drawn->actions.begin(), {frame, flip});
}

// Returns the scaled pixels that contain a region.
Rect scaled_region(const Rect& region, uint32_t scale) {
  const uint32_t x = region.x / scale;
  const uint32_t y = region.y / scale;
  return {x, y, jpeg::divide_up(region.x + region.width, scale) - x,
          jpeg::divide_up(region.y + region.height, scale) - y};
}

// Returns the region relative to the corner of the image that is decoded at this scale. Scaled
// pixels at the stored image's right and lower sides may be incomplete; if the image is shown
// mirrored, they come first.
Rect region_at_scale(const Encoded& source, Rect region, uint32_t scale) {
  const auto& [across, down, transposed] = source.orientation;
  const auto missing = [&](uint32_t side) { return jpeg::divide_up(side, scale) * scale - side; };
  if (transposed ? down : across) region.x += missing(source.size.width);
  if (transposed ? across : down) region.y += missing(source.size.height);
  return region;
}

// Returns the region as a box in the pixels of scaled_region().
Box box_in_scaled(const Rect& region, uint32_t scale) {
  const double pixels = scale;
  return {region.x % scale / pixels, region.y % scale / pixels, region.width / pixels,
          region.height / pixels};
}

}  // namespace

Result<Draw> draw(const Transform& transform, Size image, base::Random random,
                  const std::optional<FixedCrop>& crop, Annotations* objects) {
  const Size cropped = transform.crop_size.value_or(transform.size);
  ASSIGN_OR_RETURN(
      Cut cut, crop ? fixed_cut(*crop, image) : draw_cut(transform.crop, cropped, image, random));
  cut.interpolation = transform.interpolation;
  Draw out{.size = cut.size(), .cut = cut};
  out.flip = draw_flip(transform.flip, random);
  out.vertical_flip = draw_flip(transform.vertical_flip, random);
  if (objects != nullptr) {
    move(cut, image, objects);
    move(Flip{out.flip, out.vertical_flip}, out.size, objects);
  }
  ASSIGN_OR_RETURN(out.actions, draw_actions(transform.steps, out.size, random, objects));
  for (const Action& action : out.actions) out.size = size_after(action, out.size);
  const Size wanted = crop && !transform.crop_size ? crop->size : transform.size;
  if (wanted != Size{} && out.size != wanted) {
    return base::fail(base::Code::kInvalid,
                      "{} x {} pixels became a sample of {} x {}, but {} x {} were asked for",
                      image.width, image.height, out.size.width, out.size.height, wanted.width,
                      wanted.height);
  }
  // Pixels that a later crop leaves out need not be decoded.
  crop_to(crop_first(out.cut.size(), &out.actions), &out);
  join_first(&out);
  part_frame(&out);
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
  while (scale > 1 && (drawn.cut.region.width < scale * drawn.cut.resized.width ||
                       drawn.cut.region.height < scale * drawn.cut.resized.height)) {
    scale /= 2;
  }
  return scale;
}

Result<BegunSample> begin_sample(const Transform& transform, const PrepareRequest& request) {
  ASSIGN_OR_RETURN(const Encoded source, read_header(request.file, transform.oriented));
  ASSIGN_OR_RETURN(Draw drawn, draw(transform, source.size, request.random, request.crop));
  return BegunSample{source, std::move(drawn)};
}

Preparer::Preparer(const Transform& transform, const TensorOptions& options, Damaged damaged)
    : transform_(transform), decoder_(damaged), writer_(options) {}

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
    Result<BegunSample> begun =
        request.begun != nullptr ? *request.begun : begin_sample(transform_, request);
    request.status = base::status_of(begun);
    if (!begun) continue;
    auto& [source, drawn] = *begun;
    const uint32_t scale = decode_scale(transform_, source, drawn);
    const Rect region = region_at_scale(source, drawn.cut.region, scale);
    decodes_.push_back({source, scaled_region(region, scale), scale});
    draws_.push_back(std::move(drawn));
    numbers_.push_back(number);
  }
  decoder_.decode(decodes_, [&](size_t decode, Status status, base::Rows& rows) {
    PrepareRequest& request = requests[numbers_[decode]];
    request.status = std::move(status);
    if (!request.status.ok()) return;
    const Draw& drawn = draws_[decode];
    uint8_t* out = request.out;
    if (request.own != nullptr) {
      request.own->size = drawn.size;
      request.own->bytes.resize(writer_.sample_bytes(drawn.size));
      out = request.own->bytes.data();
    }
    const auto& [source, part, scale] = decodes_[decode];
    const Rect region = region_at_scale(source, drawn.cut.region, scale);
    finish(rows, box_in_scaled(region, scale), drawn, out);
  });
}

Status Preparer::prepare(Bytes file, const base::Random& random, uint8_t* out) {
  PrepareRequest request{.file = file, .random = random, .out = out};
  prepare({&request, 1});
  return request.status;
}

void Preparer::finish(base::Rows& decoded, const Box& box, const Draw& drawn, uint8_t* out) {
  const Size size = drawn.cut.size();
  const auto place = [&](uint32_t y) { return drawn.vertical_flip ? size.height - 1 - y : y; };
  if (drawn.actions.empty()) {
    cutter_.cut(decoded, box, drawn.cut, [&](uint32_t y, const PlanarRow& row) {
      writer_.write_row(row, place(y), size, drawn.flip, out);
    });
  } else {
    picture_.reset(size);
    cutter_.cut(decoded, box, drawn.cut, [&](uint32_t y, const PlanarRow& row) {
      picture_.set_row(place(y), row, drawn.flip);
    });
    performer_.perform(drawn.actions, &picture_);
    for (uint32_t y = 0; y < drawn.size.height; ++y) {
      writer_.write_row(picture_.rows(y), y, drawn.size, false, out);
    }
  }
  erase(drawn, out);
  TensorWriter::complete();
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
