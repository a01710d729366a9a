#include "image/transform/cut.h"

namespace forebay::image {
namespace {

// A crop makes only a part of the resized picture, so this may be longer than any image.
constexpr uint32_t kLongestResized = 1 << 22;  // pixels

struct Drawer {
  Size size;
  Size picture;
  base::Random& random;

  Result<Cut> operator()(const RandomResizedCrop& crop) const {
    return Cut{.region = draw_crop(crop, picture.width, picture.height, random),
               .resized = size,
               .kept = whole(size)};
  }
  Result<Cut> operator()(const RandomCrop& crop) const {
    ASSIGN_OR_RETURN(const Size resized, resized_size(crop.resize, picture, kLongestResized));
    ASSIGN_OR_RETURN(const Viewport viewport, draw_viewport(crop, resized, size, random));
    return viewport_cut(picture, resized, viewport, crop.border);
  }
  Result<Cut> operator()(const CentreCrop& crop) const {
    ASSIGN_OR_RETURN(const Size resized, resized_size(crop.resize, picture, kLongestResized));
    return viewport_cut(picture, resized, centre_viewport(resized, size), {});
  }
  Result<Cut> operator()(const WholeImage& crop) const {
    ASSIGN_OR_RETURN(const Size resized, size == Size{} ? resized_size(crop.resize, picture)
                                                        : whole_size(crop, picture, size));
    return whole_cut(picture, resized);
  }
};

}  // namespace

Cut whole_cut(Size picture, Size resized, Interpolation interpolation) {
  return {.region = whole(picture),
          .resized = resized,
          .kept = whole(resized),
          .interpolation = interpolation};
}

Cut viewport_cut(Size picture, Size resized, const Viewport& viewport, const Border& border) {
  Cut out{.region = whole(picture),
          .resized = resized,
          .kept = part_shown(resized, viewport, border.kind)};
  if (!viewport.inside(resized)) out.outside = {resized, viewport, border};
  if (picture == resized) {
    out.region = out.kept;
    out.resized = {out.kept.width, out.kept.height};
    out.kept = whole(out.resized);
  }
  return out;
}

Result<Cut> draw_cut(const Crop& crop, Size size, Size picture, base::Random& random) {
  return std::visit(Drawer{size, picture, random}, crop);
}

std::optional<Cut> joined(const Cut& first, const Cut& second) {
  if (first.resizes()) return std::nullopt;
  if (!first.outside) {
    Cut out = second;
    out.region.x += first.region.x + first.kept.x;
    out.region.y += first.region.y + first.kept.y;
    return out;
  }
  const auto& [image, viewport, border] = *first.outside;
  if (second.resizes() || second.outside || border.kind != BorderKind::kConstant) {
    return std::nullopt;
  }
  const Rect& part = second.region;
  const Viewport shown{viewport.x + part.x + second.kept.x, viewport.y + part.y + second.kept.y,
                       second.size()};
  // `first.region` may count from a part of the picture. Its difference from the region that the
  // viewport shows is then the offset of that part.
  Cut out = viewport_cut(image, image, shown, border);
  const Rect shown_by_first = part_shown(image, viewport, border.kind);
  out.region.x += first.region.x - shown_by_first.x;
  out.region.y += first.region.y - shown_by_first.y;
  return out;
}

Resizer& Cutter::resizer_for(Interpolation interpolation) {
  std::optional<Resizer>& out = resizers_[static_cast<size_t>(interpolation)];
  if (!out) out.emplace(interpolation);
  return *out;
}

}  // namespace forebay::image
