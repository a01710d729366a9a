#include "image/augment/steps.h"

#include <cmath>
#include <numeric>

#include "image/augment/geometry.h"
#include "image/augment/policies.h"

namespace forebay::image {
namespace {

double draw(const Range& range, base::Random& random) {
  return range.min + (range.max - range.min) * random.uniform();
}

bool happens(double probability, base::Random& random) { return random.uniform() < probability; }

template <size_t kCount>
std::array<uint8_t, kCount> draw_order(base::Random& random) {
  std::array<uint8_t, kCount> out;
  std::iota(out.begin(), out.end(), uint8_t{0});
  base::shuffle(std::span<uint8_t>(out), random);
  return out;
}

// From the picture's middle, in pixels.
std::array<double, 2> from_middle(const Centre& centre, Size size) {
  if (!centre) return {0, 0};
  return {(*centre)[0] - size.width * 0.5, (*centre)[1] - size.height * 0.5};
}

double tangent(double degrees) {
  const auto [sin, cos] = sin_cos(degrees);
  return sin / cos;
}

// Draws the actions of each kind of step.
class Drawer {
 public:
  Drawer(Size size, base::Random& random, std::vector<Action>* to)
      : size_(size), random_(random), to_(to) {}

  void draw_all(std::span<const Step> steps) {
    for (const Step& step : steps) std::visit(*this, step);
  }

  void operator()(const Action& action) { to_->push_back(action); }
  void operator()(const ColourJitter& step);
  void operator()(const PhotometricDistortion& step);
  void operator()(const ChannelPermutation&) {
    to_->push_back(PermuteChannels{draw_order<3>(random_)});
  }
  void operator()(const GaussianBlur& step) {
    const double sigma = draw(step.sigma, random_);
    to_->push_back(Blur{step.length, {sigma, sigma}});
  }
  void operator()(const RandomRotation& step) {
    add_rotation(draw(step.degrees, random_), step.centre, size_, step.options, to_);
  }
  void operator()(const RandomAffine& step);
  void operator()(const RandomPerspective& step);
  void operator()(const AutoAugment& step) { draw_policy(step, size_, random_, to_); }
  void operator()(const RandAugment& step) { draw_policy(step, size_, random_, to_); }
  void operator()(const TrivialAugmentWide& step) { draw_policy(step, size_, random_, to_); }
  void operator()(const AugMix& step) { draw_policy(step, size_, random_, to_); }
  void operator()(const RandomApply& step) {
    if (happens(step.probability, random_)) draw_all(step.steps);
  }
  void operator()(const RandomChoice& step);
  void operator()(const RandomOrder& step);

 private:
  Size size_;
  base::Random& random_;
  std::vector<Action>* to_;
};

void Drawer::operator()(const ColourJitter& step) {
  const std::array<uint8_t, 4> order = draw_order<4>(random_);
  std::array<double, 4> values{};
  const std::array<const std::optional<Range>*, 4> ranges{&step.brightness, &step.contrast,
                                                          &step.saturation, &step.hue};
  for (size_t i = 0; i < 4; ++i) {
    if (*ranges[i]) values[i] = draw(**ranges[i], random_);
  }
  for (const uint8_t i : order) {
    if (!*ranges[i]) continue;
    switch (i) {
      case 0:
        to_->push_back(Brightness{values[0]});
        break;
      case 1:
        to_->push_back(Contrast{values[1]});
        break;
      case 2:
        to_->push_back(Saturation{values[2]});
        break;
      default:
        to_->push_back(Hue{values[3]});
    }
  }
}

void Drawer::operator()(const PhotometricDistortion& step) {
  const auto draw_some = [&](const Range& range) -> std::optional<double> {
    if (!happens(step.probability, random_)) return std::nullopt;
    return draw(range, random_);
  };
  const auto brightness = draw_some(step.brightness);
  const auto contrast = draw_some(step.contrast);
  const auto saturation = draw_some(step.saturation);
  const auto hue = draw_some(step.hue);
  const bool contrast_first = happens(0.5, random_);
  if (brightness) to_->push_back(Brightness{*brightness});
  if (contrast && contrast_first) to_->push_back(Contrast{*contrast});
  if (saturation) to_->push_back(Saturation{*saturation});
  if (hue) to_->push_back(Hue{*hue});
  if (contrast && !contrast_first) to_->push_back(Contrast{*contrast});
  if (happens(step.probability, random_)) to_->push_back(PermuteChannels{draw_order<3>(random_)});
}

void Drawer::operator()(const RandomAffine& step) {
  AffineParts parts{.degrees = draw(step.degrees, random_),
                    .centre = from_middle(step.centre, size_)};
  if (step.translate) {
    const auto draw_pixels = [&](double share, uint32_t side) {
      const double most = share * side;
      return std::nearbyint(draw({-most, most}, random_));
    };
    parts.translate[0] = draw_pixels((*step.translate)[0], size_.width);
    parts.translate[1] = draw_pixels((*step.translate)[1], size_.height);
  }
  if (step.scale) parts.scale = draw(*step.scale, random_);
  if (step.shear) {
    parts.shear[0] = tangent(draw((*step.shear)[0], random_));
    parts.shear[1] = tangent(draw((*step.shear)[1], random_));
  }
  to_->push_back(AffineWarp{affine_map(parts), step.options});
}

void Drawer::operator()(const RandomPerspective& step) {
  if (!happens(step.probability, random_)) return;
  // Each corner moves inwards by less than this.
  const auto room = [&](uint32_t side) {
    return static_cast<uint64_t>(step.distortion * (side / 2)) + 1;
  };
  const uint64_t across = room(size_.width);
  const uint64_t down = room(size_.height);
  const double right = size_.width - 1.0;
  const double low = size_.height - 1.0;
  const Corners from{{{0, 0}, {right, 0}, {right, low}, {0, low}}};
  Corners to = from;
  for (size_t i = 0; i < to.size(); ++i) {
    const auto x = static_cast<double>(random_.below(across));
    const auto y = static_cast<double>(random_.below(down));
    to[i][0] += i == 1 || i == 2 ? -x : x;
    to[i][1] += i >= 2 ? -y : y;
  }
  to_->push_back(Perspective{projection_of(from, to), step.options});
}

void Drawer::operator()(const RandomChoice& step) {
  const double total = std::accumulate(step.weights.begin(), step.weights.end(), 0.0);
  double left = total * random_.uniform();
  size_t chosen = 0;
  for (size_t i = 0; i < step.steps.size(); ++i) {
    if (step.weights[i] == 0) continue;
    chosen = i;  // the last one also gets what rounding leaves over
    if (left < step.weights[i]) break;
    left -= step.weights[i];
  }
  std::visit(*this, step.steps[chosen]);
}

void Drawer::operator()(const RandomOrder& step) {
  std::vector<size_t> order(step.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  base::shuffle(std::span<size_t>(order), random_);
  for (const size_t i : order) std::visit(*this, step.steps[i]);
}

}  // namespace

void add_rotation(double degrees, const Centre& centre, Size size, const WarpOptions& options,
                  std::vector<Action>* to) {
  const double rest = std::fmod(degrees, 90.0);
  const auto quarters = static_cast<int64_t>(std::fmod(degrees, 360.0) / 90);
  const bool keeps_size = quarters % 2 == 0 || size.width == size.height;
  if (!centre && rest == 0 && keeps_size) {
    const auto turns = static_cast<uint32_t>((quarters + 4) % 4);
    if (turns != 0) to->push_back(QuarterTurns{turns});
    return;
  }
  const AffineParts parts{.degrees = -degrees, .centre = from_middle(centre, size)};
  to->push_back(AffineWarp{affine_map(parts), options});
}

std::vector<Action> draw_actions(std::span<const Step> steps, Size size, base::Random& random) {
  std::vector<Action> out;
  Drawer(size, random, &out).draw_all(steps);
  return out;
}

}  // namespace forebay::image
