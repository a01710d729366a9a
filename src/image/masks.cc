#include "image/masks.h"

#include "image/codec/png.h"

namespace forebay::image {
namespace {

Cut mask_cut(Cut cut, MaskKind kind) {
  if (cut.interpolation != Interpolation::kNearestExact) {
    cut.interpolation = Interpolation::kNearest;
  }
  if (cut.outside) {
    Border& border = cut.outside->border;
    border.fill = {kind == MaskKind::kLabels ? border.mask_fill : uint8_t{0}, 0, 0};
  }
  return cut;
}

WarpOptions mask_options(const WarpOptions& options, MaskKind kind) {
  if (kind == MaskKind::kObjects || options.mask_fill == 0) return {};
  return {.fill = std::array{static_cast<float>(options.mask_fill), 0.0F, 0.0F}};
}

// Appends what an action does to masks, which is nothing if it only changes colours.
struct ForMasks {
  std::vector<Action>* to;
  MaskKind kind;

  template <class Other>
  void operator()(const Other&) const {}
  void operator()(const Flip& flip) const { to->push_back(flip); }
  void operator()(const QuarterTurns& turns) const { to->push_back(turns); }
  void operator()(const Cut& cut) const { to->push_back(mask_cut(cut, kind)); }
  void operator()(const AffineWarp& warp) const {
    to->push_back(AffineWarp{warp.map, mask_options(warp.options, kind), warp.window, warp.canvas});
  }
  void operator()(const Perspective& warp) const {
    to->push_back(Perspective{warp.map, mask_options(warp.options, kind), warp.window});
  }
};

}  // namespace

std::vector<Action> mask_actions(std::span<const Action> actions, MaskKind kind) {
  std::vector<Action> out;
  for (const Action& action : actions) std::visit(ForMasks{&out, kind}, action);
  return out;
}

void MaskMaker::move(const Orientation& orientation, const Draw& drawn, MaskKind kind) {
  const Cut cut = mask_cut(drawn.cut, kind);
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
  performer_.perform(mask_actions(drawn.actions, kind), &picture_);
}

Status MaskMaker::decode(Bytes png, const Palette* palette) {
  if (palette == nullptr) return decode_png_labels(png, &from_.pixels);
  RETURN_IF_ERROR(decode_png_colours(png, &from_.pixels));
  return palette->to_labels(&from_.pixels);
}

Status MaskMaker::make_labels(Bytes png, const Encoded& image, DrawnOn drawn_on,
                              const Palette* palette, const Draw& drawn, OwnSize* out) {
  RETURN_IF_ERROR(decode(png, palette));
  const Size own{from_.pixels.width, from_.pixels.height};
  const Size stored = turned(image.size, image.orientation);
  const bool is_stored = own == stored && drawn_on != DrawnOn::kShown;
  if (!is_stored && (own != image.size || drawn_on == DrawnOn::kStored)) {
    return base::fail(base::Code::kInvalid,
                      "the mask has {} x {} pixels, but its image has {} x {}", own.width,
                      own.height, stored.width, stored.height);
  }
  move(is_stored ? image.orientation : Orientation{}, drawn, MaskKind::kLabels);
  const size_t bytes = palette == nullptr && png_bits(png) == 16 ? 2 : 1;
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
    move(orientation, drawn, MaskKind::kObjects);
    for (size_t i = 0; i < some.size(); ++i) {
      for (uint32_t y = 0; y < drawn.size.height; ++y) {
        const uint8_t* const row = picture_.row(i / 8, y);
        for (uint32_t x = 0; x < drawn.size.width; ++x) *to++ = row[x] >> i % 8 & 1;
      }
    }
  }
}

}  // namespace forebay::image
