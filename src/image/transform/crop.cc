#include "image/transform/crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/limits.h"
#include "image/transform/distributions.h"

namespace forebay::image {
namespace {

constexpr int kTries = 10;

// Rounds halves to even like Python's round(); for 0 <= x < 2^52.
uint32_t round_half_even(double x) {
  const double whole = std::floor(x);
  const double rest = x - whole;
  auto rounded = static_cast<uint32_t>(whole);
  if (rest > 0.5 || (rest == 0.5 && rounded % 2 == 1)) ++rounded;
  return rounded;
}

// Returns at least 1 pixel, so that odd options still give a crop.
uint32_t fit(double side, uint32_t limit) {
  if (side >= limit) return limit;
  return std::max(1u, round_half_even(side));
}

struct Shape {
  uint32_t along = 0;
  uint32_t across = 0;
};

// Draws a rectangle: its share of `area` is uniform, and its ratio of along to across is uniform in
// its logarithm.
template <class Options>
Shape draw_shape(const Options& options, double area, base::Random& random) {
  const double log_min = exact_log(options.ratio_min);
  const double log_max = exact_log(options.ratio_max);
  const double share =
      options.scale_min + (options.scale_max - options.scale_min) * random.uniform();
  const double ratio = exact_exp(log_min + (log_max - log_min) * random.uniform());
  return {.along = round_half_even(std::sqrt(area * share * ratio)),
          .across = round_half_even(std::sqrt(area * share / ratio))};
}

// Draws a place for the rectangle anywhere inside; `y` is drawn first.
Rect draw_place(uint32_t w, uint32_t h, uint32_t width, uint32_t height, base::Random& random) {
  const auto y = static_cast<uint32_t>(random.below(uint64_t{height} - h + 1));
  const auto x = static_cast<uint32_t>(random.below(uint64_t{width} - w + 1));
  return {x, y, w, h};
}

// Returns the largest crop with an allowed ratio, in the centre.
Rect fallback_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height) {
  Rect crop{0, 0, width, height};
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  if (ratio < options.ratio_min) {
    crop.height = fit(width / options.ratio_min, height);
  } else if (ratio > options.ratio_max) {
    crop.width = fit(height * options.ratio_max, width);
  }
  crop.x = (width - crop.width) / 2;
  crop.y = (height - crop.height) / 2;
  return crop;
}

}  // namespace

Rect draw_crop(const RandomResizedCrop& options, uint32_t width, uint32_t height,
               base::Random& random) {
  const double area = static_cast<double>(width) * static_cast<double>(height);
  for (int i = 0; i < kTries; ++i) {
    const auto [w, h] = draw_shape(options, area, random);
    if (w == 0 || w > width || h == 0 || h > height) continue;
    return draw_place(w, h, width, height, random);
  }
  return fallback_crop(options, width, height);
}

std::optional<Rect> draw_erased(const RandomErasing& options, Size size, base::Random& random) {
  if (random.uniform() >= options.probability) return std::nullopt;
  const double area = static_cast<double>(size.width) * static_cast<double>(size.height);
  for (int i = 0; i < kTries; ++i) {
    const auto [h, w] = draw_shape(options, area, random);
    if (w >= size.width || h >= size.height) continue;
    if (w == 0 || h == 0) return std::nullopt;
    return draw_place(w, h, size.width, size.height, random);
  }
  return std::nullopt;
}

Result<Size> resized_size(const std::optional<Resize>& resize, Size image, uint32_t side_max) {
  if (!resize) return image;
  if (const auto* const exact = std::get_if<Size>(&*resize)) return *exact;
  const auto& [pixels, longest] = std::get<ShortSide>(*resize);
  const uint64_t shorter = std::min(image.width, image.height);
  const uint64_t longer = std::max(image.width, image.height);
  uint64_t to_shorter = pixels;
  uint64_t to_longer = pixels * longer / shorter;
  if (longest && (pixels == 0 || to_longer > *longest)) {
    // torchvision divides by the rounded long side.
    to_shorter =
        pixels == 0 ? *longest * shorter / longer : uint64_t{*longest} * pixels / to_longer;
    to_longer = *longest;
  }
  if (to_longer > side_max) {
    return base::fail(base::Code::kTooBig,
                      "{} x {} pixels resized to {} on the short side would have more than {} on "
                      "the long side",
                      image.width, image.height, pixels, side_max);
  }
  if (to_shorter == 0) {
    return base::fail(base::Code::kInvalid,
                      "{} x {} pixels resized to {} on the long side would have 0 on the short "
                      "side",
                      image.width, image.height, to_longer);
  }
  const auto resized_shorter = static_cast<uint32_t>(to_shorter);
  const auto resized_longer = static_cast<uint32_t>(to_longer);
  return image.width <= image.height ? Size{resized_shorter, resized_longer}
                                     : Size{resized_longer, resized_shorter};
}

Status check_mirror(BorderKind kind, const Padding& padding, Size image) {
  const bool mirrors = kind == BorderKind::kReflect || kind == BorderKind::kSymmetric;
  const uint32_t across = std::max(padding.left, padding.right);
  const uint32_t down = std::max(padding.top, padding.bottom);
  const uint32_t shown = kind == BorderKind::kReflect ? 1 : 0;
  if (!mirrors || (across <= image.width - shown && down <= image.height - shown)) return {};
  return base::fail(base::Code::kInvalid,
                    "a border of {} x {} pixels is wider than its mirror image of {} x {} pixels",
                    across, down, image.width, image.height);
}

Result<Viewport> draw_viewport(const RandomCrop& crop, Size image, Size size,
                               base::Random& random) {
  const Padding& p = crop.padding;
  int64_t left = p.left;
  int64_t top = p.top;
  int64_t width = left + image.width + p.right;
  int64_t height = top + image.height + p.bottom;
  // Pads both sides by the amount that is missing, like torchvision, so that any place of the image
  // is possible.
  if (crop.pad_if_needed && height < size.height) {
    top += size.height - height;
    height += 2 * (size.height - height);
  }
  if (crop.pad_if_needed && width < size.width) {
    left += size.width - width;
    width += 2 * (size.width - width);
  }
  if (width < size.width || height < size.height) {
    return base::fail(
        base::Code::kInvalid,
        "{} x {} pixels, {} x {} with the padding, are less than the crop of {} x {}; "
        "resize first, or set pad_if_needed",
        image.width, image.height, width, height, size.width, size.height);
  }
  const Rect place = draw_place(size.width, size.height, static_cast<uint32_t>(width),
                                static_cast<uint32_t>(height), random);
  const Viewport viewport{place.x - left, place.y - top, size};
  const auto sides = [](int64_t before, int64_t shown, int64_t padded) {
    return std::pair(static_cast<uint32_t>(before), static_cast<uint32_t>(padded - before - shown));
  };
  const auto [before, after] = sides(left, image.width, width);
  const auto [above, below] = sides(top, image.height, height);
  RETURN_IF_ERROR(check_mirror(crop.border.kind, {before, above, after, below}, image));
  return viewport;
}

Result<Size> whole_size(const WholeImage& whole, Size image, Size size) {
  ASSIGN_OR_RETURN(const Size resized, resized_size(whole.resize, image));
  if (resized == size) return size;
  const std::string resize =
      whole.resize ? fmt::format(", resized to {} x {},", resized.width, resized.height) : "";
  return base::fail(base::Code::kInvalid,
                    "{} x {} pixels{} are not the {} x {} of all samples; if images differ in "
                    "size, the transform must crop them or resize both of their sides",
                    image.width, image.height, resize, size.width, size.height);
}

Viewport centre_viewport(Size image, Size size) {
  // Centres the crop in the image plus the missing padding, whose smaller half is on the left and
  // on the top.
  const auto begin = [](uint32_t side, uint32_t kept) {
    if (kept > side) return -int64_t{(kept - side) / 2};
    return int64_t{round_half_even((side - kept) / 2.0)};
  };
  return {begin(image.width, size.width), begin(image.height, size.height), size};
}

}  // namespace forebay::image
