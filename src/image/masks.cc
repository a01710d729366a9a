#include "image/masks.h"

#include "image/codec/png.h"

namespace forebay::image {
namespace {

Cut mask_cut(Cut cut) {
  cut.interpolation = Interpolation::kNearest;
  if (cut.outside) cut.outside->border.fill = {0, 0, 0};
  return cut;
}

// Appends what an action does to masks, which is nothing if it only changes colours.
struct ForMasks {
  std::vector<Action>* to;

  template <class Other>
  void operator()(const Other&) const {}
  void operator()(const Flip& flip) const { to->push_back(flip); }
  void operator()(const QuarterTurns& turns) const { to->push_back(turns); }
  void operator()(const Cut& cut) const { to->push_back(mask_cut(cut)); }
  void operator()(const AffineWarp& warp) const {
    to->push_back(AffineWarp{warp.map, {}, warp.window});
  }
  void operator()(const Perspective& warp) const {
    to->push_back(Perspective{warp.map, {}, warp.window});
  }
};

}  // namespace

std::vector<Action> mask_actions(std::span<const Action> actions) {
  std::vector<Action> out;
  for (const Action& action : actions) std::visit(ForMasks{&out}, action);
  return out;
}

void MaskMaker::move(const Orientation& orientation, const Draw& drawn) {
  const Cut cut = mask_cut(drawn.cut);
  const Size size = cut.size();
  Pixels& stored = from_.pixels;
  stored.crop(stored_region(cut.region, stored.width, stored.height, orientation));
  const bool is_turned = orientation != Orientation{};
  if (is_turned) shown_.turn(from_, orientation);
  base::Rows& rows = is_turned ? static_cast<base::Rows&>(shown_) : from_;
  picture_.reset(size);
  cutter_.cut(rows, whole(rows), cut, [&](uint32_t y, const PlanarRow& row) {
    picture_.set_row(drawn.vertical_flip ? size.height - 1 - y : y, row, drawn.flip);
  });
  performer_.perform(mask_actions(drawn.actions), &picture_);
}

Status MaskMaker::make_labels(Bytes png, const Encoded& image, const Draw& drawn, OwnSize* out) {
  RETURN_IF_ERROR(decode_png_labels(png, &from_.pixels));
  const Size own{from_.pixels.width, from_.pixels.height};
  const Size stored = turned(image.size, image.orientation);
  if (own != stored && own != image.size) {
    return base::fail(base::Code::kInvalid,
                      "the mask has {} x {} pixels, but its image has {} x {}", own.width,
                      own.height, stored.width, stored.height);
  }
  move(own == stored ? image.orientation : Orientation{}, drawn);
  const size_t bytes = png_bits(png) == 16 ? 2 : 1;
  const Size size = picture_.size();
  out->size = size;
  out->bytes.resize(size_t{size.width} * size.height * bytes);
  uint8_t* to = out->bytes.data();
  for (uint32_t y = 0; y < size.height; ++y) {
    const PlanarRow row = picture_.rows(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      for (size_t byte = 0; byte < bytes; ++byte) *to++ = row[byte][x];
    }
  }
  return {};
}

// Transforms up to 24 masks together, each as one bit of a pixel.
void MaskMaker::make_objects(std::span<const std::vector<Changes>> objects, Size image,
                             const Orientation& orientation, const Draw& drawn, OwnSize* out) {
  constexpr size_t kBits = 24;
  out->size = drawn.size;
  const size_t pixels = size_t{drawn.size.width} * drawn.size.height;
  out->bytes.resize(objects.size() * pixels);
  uint8_t* to = out->bytes.data();
  for (size_t first = 0; first < objects.size(); first += kBits) {
    const auto some = objects.subspan(first, std::min(kBits, objects.size() - first));
    const Size drawn_on = turned(image, orientation);
    from_.pixels.reset(drawn_on.width, drawn_on.height);
    std::ranges::fill(from_.pixels.rgb, uint8_t{0});
    for (size_t i = 0; i < some.size(); ++i) {
      for (const Changes& part : some[i]) {
        draw_mask(part, i / 8, static_cast<uint8_t>(1U << i % 8), &from_.pixels);
      }
    }
    move(orientation, drawn);
    for (size_t i = 0; i < some.size(); ++i) {
      for (uint32_t y = 0; y < drawn.size.height; ++y) {
        const uint8_t* const row = picture_.row(i / 8, y);
        for (uint32_t x = 0; x < drawn.size.width; ++x) *to++ = row[x] >> i % 8 & 1;
      }
    }
  }
}

}  // namespace forebay::image
