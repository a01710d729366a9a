#include <algorithm>
#include <cmath>

#include "image/augment/geometry.h"
#include "image/augment/policies.h"
#include "image/transform/distributions.h"

namespace forebay::image {
namespace {

double draw_magnitude(const AugmentOp& step, base::Random& random) {
  double out = step.magnitude;
  if (!step.deviation) {
    out *= random.uniform();
  } else if (*step.deviation > 0) {
    out += *step.deviation * draw_normals(random)[0];
  }
  return std::clamp(out, 0.0, step.magnitude_most);
}

double draw_argument(const AugmentOp& step, base::Random& random) {
  double change = step.slope * (draw_magnitude(step, random) / 10);
  if (step.whole) change = std::trunc(change);
  if (step.either_sign && random.uniform() < 0.5) change = -change;
  return std::clamp(step.base + change, step.least, step.most);
}

// Pillow's map in pixels from the top left corner: (x, y) shows (x + across * y + right, y + down *
// x + low).
Action pillow_warp(double across, double down, double right, double low, Size size,
                   const WarpOptions& options) {
  const double x = size.width * 0.5;
  const double y = size.height * 0.5;
  return AffineWarp{{{1, across, across * y + right, down, 1, down * x + low}}, options};
}

Action blur_of(double sigma, Size size) {
  // Three standard deviations to each side, but no further than the picture.
  const auto length = [&](uint32_t side) {
    const auto reach = static_cast<uint32_t>(std::ceil(3 * sigma));
    return 2 * std::min(reach, side - 1) + 1;
  };
  return Blur{{length(size.width), length(size.height)}, {sigma, sigma}};
}

Action tone_of(Operation operation, double argument) {
  switch (operation) {
    case Operation::kEqualize:
      return Equalize{};
    case Operation::kInvert:
      return Invert{};
    case Operation::kPosterize:
      return Posterize{static_cast<uint32_t>(argument)};
    case Operation::kSolarize:
      return Solarize{argument};
    case Operation::kSolarizeAdd:
      return SolarizeAdd{static_cast<uint32_t>(argument)};
    case Operation::kColour:
      return Saturation{argument};
    case Operation::kContrast:
      return Contrast{argument};
    case Operation::kBrightness:
      return Brightness{argument};
    case Operation::kSharpness:
      return Sharpness{argument};
    default:
      return Autocontrast{};
  }
}

}  // namespace

void draw_policy(const AugmentOp& step, Size size, base::Random& random, std::vector<Action>* to) {
  if (random.uniform() >= step.probability) return;
  const double argument = draw_argument(step, random);
  const auto add_warp = [&](double across, double down, double right, double low) {
    to->push_back(pillow_warp(across, down, right, low, size, step.options));
  };
  switch (step.operation) {
    case Operation::kRotate:
      return add_rotation(argument, {}, size, step.options, to);
    case Operation::kShearX:
      return add_warp(argument, 0, 0, 0);
    case Operation::kShearY:
      return add_warp(0, argument, 0, 0);
    case Operation::kTranslateX:
      return add_warp(0, 0, argument, 0);
    case Operation::kTranslateY:
      return add_warp(0, 0, 0, argument);
    case Operation::kTranslateXShare:
      return add_warp(0, 0, argument * size.width, 0);
    case Operation::kTranslateYShare:
      return add_warp(0, 0, 0, argument * size.height);
    case Operation::kBlur:
      return to->push_back(blur_of(argument, size));
    case Operation::kBlurUpTo:
      return to->push_back(blur_of(0.1 + (argument - 0.1) * random.uniform(), size));
    default:
      return to->push_back(tone_of(step.operation, argument));
  }
}

}  // namespace forebay::image
