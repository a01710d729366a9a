// Draws the steps that change a picture's size.
#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "image/augment/drawer.h"
#include "image/augment/geometry.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

bool has_middle_in(const Bounds& box, const Bounds& crop) {
  const float x = 0.5F * (box.left + box.right);
  const float y = 0.5F * (box.top + box.bottom);
  return crop.left < x && x < crop.right && crop.top < y && y < crop.bottom;
}

// Intersection over union.
float overlap_of(const Bounds& a, const Bounds& b) {
  const auto area = [](const Bounds& box) {
    return (box.right - box.left) * (box.bottom - box.top);
  };
  const float width = std::max(0.0F, std::min(a.right, b.right) - std::max(a.left, b.left));
  const float height = std::max(0.0F, std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
  const float both = width * height;
  return both / (area(a) + area(b) - both);
}

}  // namespace

void Drawer::add_cut(Result<Cut> cut, Interpolation interpolation) {
  if (!cut) {
    status_ = std::move(cut.error());
    return;
  }
  cut->interpolation = interpolation;
  actions_.push_back(*std::move(cut));
}

void Drawer::add_scaled(double factor, Interpolation interpolation) {
  const auto side = [&](uint32_t pixels) { return std::max(1.0, std::floor(pixels * factor)); };
  const double width = side(size_.width);
  const double height = side(size_.height);
  if (std::max(width, height) > base::kImageSideMax) {
    status_ = fail(Code::kTooBig, "{} x {} pixels resized to {} x {} have a side above {}",
                   size_.width, size_.height, width, height, base::kImageSideMax);
    return;
  }
  const Size resized{static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
  add_cut(whole_cut(size_, resized), interpolation);
}

void Drawer::operator()(const RandomRotation& step) {
  const double degrees = draw_within(step.degrees, random_);
  if (!step.expand) {
    add_rotation(degrees, step.centre, size_, step.options, &actions_);
    return;
  }
  if (!step.centre && std::fmod(degrees, 90.0) == 0) {
    add_rotation(degrees, {}, {1, 1}, step.options, &actions_);  // a square's are quarter turns
    return;
  }
  AffineWarp warp{affine_map({.degrees = -degrees}), step.options};
  const Size made = size_around(warp.map, size_);
  if (std::max(made.width, made.height) > base::kImageSideMax) {
    status_ = fail(Code::kTooBig, "{} x {} pixels turned by {} degrees have a side above {}",
                   size_.width, size_.height, degrees, base::kImageSideMax);
    return;
  }
  warp.canvas = made;
  actions_.push_back(warp);
}

void Drawer::operator()(const Pad& step) {
  const Padding& p = step.padding;
  const uint64_t width = uint64_t{p.left} + size_.width + p.right;
  const uint64_t height = uint64_t{p.top} + size_.height + p.bottom;
  if (std::max(width, height) > base::kImageSideMax) {
    status_ = fail(Code::kTooBig, "{} x {} pixels padded to {} x {} have a side above {}",
                   size_.width, size_.height, width, height, base::kImageSideMax);
    return;
  }
  if (const Status mirror = check_mirror(step.border.kind, p, size_); !mirror.ok()) {
    status_ = mirror;
    return;
  }
  const Viewport viewport{-int64_t{p.left},
                          -int64_t{p.top},
                          {static_cast<uint32_t>(width), static_cast<uint32_t>(height)}};
  add_cut(viewport_cut(size_, size_, viewport, step.border));
}

void Drawer::operator()(const RandomZoomOut& step) {
  if (!happens(step.probability, random_)) return;
  const double factor = draw_within(step.factor, random_);
  const double across = random_.uniform();
  const double down = random_.uniform();
  const auto larger = [&](uint32_t side) { return static_cast<uint32_t>(side * factor); };
  const Size canvas{larger(size_.width), larger(size_.height)};
  const auto place = [&](uint32_t room, double share) {
    return static_cast<uint32_t>(room * share);
  };
  const uint32_t left = place(canvas.width - size_.width, across);
  const uint32_t top = place(canvas.height - size_.height, down);
  const Padding padding{left, top, canvas.width - size_.width - left,
                        canvas.height - size_.height - top};
  (*this)(Pad{padding, {.fill = step.fill, .mask_fill = step.mask_fill}});
}

// Whether the crop contains the middle of a box that overlaps with the crop by at least `overlap`.
bool Drawer::keeps_enough(const Rect& crop, double overlap) const {
  const Bounds of{static_cast<float>(crop.x), static_cast<float>(crop.y),
                  static_cast<float>(crop.x + crop.width),
                  static_cast<float>(crop.y + crop.height)};
  return std::ranges::any_of(objects_->boxes, [&](const Bounds& box) {
    return has_middle_in(box, of) && overlap_of(box, of) >= static_cast<float>(overlap);
  });
}

// Returns nothing if the picture stays as it is.
std::optional<Rect> Drawer::draw_iou_crop(const RandomIouCrop& step) {
  // If no crop fits any box, only drawing an overlap of 1 or more would end the search without this
  // limit.
  constexpr int kRounds = 1000;
  if (objects_ == nullptr || objects_->boxes.empty()) return std::nullopt;
  for (int round = 0; round < kRounds; ++round) {
    const double overlap = step.overlaps[random_.below(step.overlaps.size())];
    if (overlap >= 1) return std::nullopt;
    for (uint32_t trial = 0; trial < step.trials; ++trial) {
      const auto width = static_cast<uint32_t>(size_.width * draw_within(step.scale, random_));
      const auto height = static_cast<uint32_t>(size_.height * draw_within(step.scale, random_));
      if (width == 0 || height == 0) continue;
      const double ratio = static_cast<double>(width) / height;
      if (ratio < step.ratio.min || ratio > step.ratio.max) continue;
      const auto x = static_cast<uint32_t>((size_.width - width) * random_.uniform());
      const auto y = static_cast<uint32_t>((size_.height - height) * random_.uniform());
      const Rect crop{x, y, width, height};
      if (keeps_enough(crop, overlap)) return crop;
    }
  }
  return std::nullopt;
}

void Drawer::operator()(const RandomIouCrop& step) {
  const std::optional<Rect> crop = draw_iou_crop(step);
  if (!crop) return;
  const Bounds of{static_cast<float>(crop->x), static_cast<float>(crop->y),
                  static_cast<float>(crop->x + crop->width),
                  static_cast<float>(crop->y + crop->height)};
  for (Bounds& box : objects_->boxes) {
    // Such a box becomes empty, in the corner of the crop.
    if (!has_middle_in(box, of)) box = {of.left, of.top, of.left, of.top};
  }
  const Viewport viewport{crop->x, crop->y, {crop->width, crop->height}};
  add_cut(viewport_cut(size_, size_, viewport, {}));
}

void Drawer::operator()(const ScaleJitter& step) {
  const double scale = draw_within(step.scale, random_);
  // torchvision divides the target width by the height, and the target height by the width.
  const double fits = std::min(static_cast<double>(step.target.width) / size_.height,
                               static_cast<double>(step.target.height) / size_.width);
  add_scaled(fits * scale, step.interpolation);
}

void Drawer::operator()(const RandomShortestSize& step) {
  const uint32_t shortest = step.sizes[random_.below(step.sizes.size())];
  double factor = static_cast<double>(shortest) / std::min(size_.width, size_.height);
  if (step.longest) {
    factor =
        std::min(factor, static_cast<double>(*step.longest) / std::max(size_.width, size_.height));
  }
  add_scaled(factor, step.interpolation);
}

void Drawer::operator()(const RandomResize& step) {
  const auto side = static_cast<uint32_t>(step.min + random_.below(step.max - step.min));
  add_cut(draw_cut(WholeImage{ShortSide{side}}, {}, size_, random_), step.interpolation);
}

}  // namespace forebay::image
