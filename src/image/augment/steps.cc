#include "image/augment/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "image/augment/drawer.h"
#include "image/augment/geometry.h"
#include "image/augment/policies.h"
#include "image/transform/distributions.h"

namespace forebay::image {

namespace {

template <size_t kCount>
std::array<uint8_t, kCount> draw_order(base::Random& random) {
  std::array<uint8_t, kCount> out;
  std::iota(out.begin(), out.end(), uint8_t{0});
  base::shuffle(std::span<uint8_t>(out), random);
  return out;
}

// Returns the point in pixels from the picture's middle.
std::array<double, 2> from_middle(const Centre& centre, Size size) {
  if (!centre) return {0, 0};
  return {(*centre)[0] - size.width * 0.5, (*centre)[1] - size.height * 0.5};
}

// Draws an index by weights, at least one of which must be above 0.
size_t draw_choice(std::span<const double> weights, base::Random& random) {
  double left = std::accumulate(weights.begin(), weights.end(), 0.0) * random.uniform();
  size_t chosen = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;  // the last choice also gets what rounding leaves over
    if (left < weights[i]) break;
    left -= weights[i];
  }
  return chosen;
}

double tangent(double degrees) {
  const auto [sin, cos] = sin_cos(degrees);
  return sin / cos;
}

}  // namespace

// Draws nothing after an error.
void Drawer::draw_one(const Step& step) {
  if (!status_.ok()) return;
  const size_t before = actions_.size();
  std::visit(*this, step);
  // The members of a list have already moved the annotations.
  const bool is_list = std::holds_alternative<RandomApply>(step) ||
                       std::holds_alternative<RandomChoice>(step) ||
                       std::holds_alternative<RandomOrder>(step);
  for (size_t i = before; i < actions_.size() && !is_list; ++i) {
    if (objects_ != nullptr) move(actions_[i], size_, objects_);
    size_ = size_after(actions_[i], size_);
  }
}

void Drawer::operator()(const ColourJitter& step) {
  const std::array<uint8_t, 4> order = draw_order<4>(random_);
  std::array<double, 4> values{};
  const std::array<const std::optional<Range>*, 4> ranges{&step.brightness, &step.contrast,
                                                          &step.saturation, &step.hue};
  for (size_t i = 0; i < 4; ++i) {
    if (*ranges[i]) values[i] = draw_within(**ranges[i], random_);
  }
  for (const uint8_t i : order) {
    if (!*ranges[i]) continue;
    switch (i) {
      case 0:
        actions_.push_back(Brightness{values[0]});
        break;
      case 1:
        actions_.push_back(Contrast{values[1]});
        break;
      case 2:
        actions_.push_back(Saturation{values[2]});
        break;
      default:
        actions_.push_back(Hue{values[3]});
    }
  }
}

void Drawer::operator()(const ChannelPermutation&) {
  actions_.push_back(PermuteChannels{draw_order<3>(random_)});
}

void Drawer::operator()(const GaussianBlur& step) {
  const double sigma = draw_within(step.sigma, random_);
  if (step.length[0] / 2 < size_.width && step.length[1] / 2 < size_.height) {
    actions_.push_back(Blur{step.length, {sigma, sigma}});
    return;
  }
  status_ = base::fail(base::Code::kInvalid, "{} x {} pixels are too few for a blur of {} x {}",
                       size_.width, size_.height, step.length[0], step.length[1]);
}

void Drawer::operator()(const PhotometricDistortion& step) {
  const auto draw_some = [&](const Range& range) -> std::optional<double> {
    if (!happens(step.probability, random_)) return std::nullopt;
    return draw_within(range, random_);
  };
  const auto brightness = draw_some(step.brightness);
  const auto contrast = draw_some(step.contrast);
  const auto saturation = draw_some(step.saturation);
  const auto hue = draw_some(step.hue);
  const bool contrast_first = happens(0.5, random_);
  if (brightness) actions_.push_back(Brightness{*brightness});
  if (contrast && contrast_first) actions_.push_back(Contrast{*contrast});
  if (saturation) actions_.push_back(Saturation{*saturation});
  if (hue) actions_.push_back(Hue{*hue});
  if (contrast && !contrast_first) actions_.push_back(Contrast{*contrast});
  if (happens(step.probability, random_))
    actions_.push_back(PermuteChannels{draw_order<3>(random_)});
}

void Drawer::operator()(const RandomAffine& step) {
  AffineParts parts{.degrees = draw_within(step.degrees, random_),
                    .centre = from_middle(step.centre, size_)};
  if (step.translate) {
    const auto draw_pixels = [&](double share, uint32_t side) {
      const double most = share * side;
      return std::nearbyint(draw_within({-most, most}, random_));
    };
    parts.translate[0] = draw_pixels((*step.translate)[0], size_.width);
    parts.translate[1] = draw_pixels((*step.translate)[1], size_.height);
  }
  if (step.scale) parts.scale = draw_within(*step.scale, random_);
  if (step.shear) {
    parts.shear[0] = tangent(draw_within((*step.shear)[0], random_));
    parts.shear[1] = tangent(draw_within((*step.shear)[1], random_));
  }
  actions_.push_back(AffineWarp{affine_map(parts), step.options});
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
  actions_.push_back(Perspective{projection_of(from, to), step.options});
}

void Drawer::operator()(const RandomChoice& step) {
  std::vector<double> weights = step.weights;
  for (uint32_t i = 0; i < step.count; ++i) {
    const size_t chosen = draw_choice(weights, random_);
    draw_one(step.steps[chosen]);
    if (!step.may_repeat) weights[chosen] = 0;
  }
}

void Drawer::operator()(const ChainMixture& step) {
  std::array<double, 2> shares{};
  draw_dirichlet(step.alpha, random_, shares);
  std::vector<double> weights(step.width);
  draw_dirichlet(step.alpha, random_, weights);
  Blend blend;
  blend.own = static_cast<float>(shares[0]);
  for (const double weight : weights) {
    Drawer chain(size_, random_, nullptr);
    const uint64_t depth = step.depth > 0 ? step.depth : 1 + random_.below(3);
    for (uint64_t i = 0; i < depth; ++i)
      chain.draw_one(step.steps[random_.below(step.steps.size())]);
    auto actions = chain.actions();
    if (!actions) {
      status_ = std::move(actions.error());
      return;
    }
    blend.chains.push_back(
        {static_cast<float>(weight) * static_cast<float>(shares[1]), *std::move(actions)});
  }
  actions_.push_back(std::move(blend));
}

void Drawer::operator()(const RandomOrder& step) {
  std::vector<size_t> order(step.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  base::shuffle(std::span<size_t>(order), random_);
  for (const size_t i : order) draw_one(step.steps[i]);
}

namespace {

struct SizeChange {
  bool operator()(const Action& action) const { return std::holds_alternative<Cut>(action); }
  bool operator()(const RandomRotation& step) const { return step.expand; }
  bool operator()(const Cropping&) const { return true; }
  bool operator()(const Pad&) const { return true; }
  bool operator()(const RandomZoomOut&) const { return true; }
  bool operator()(const RandomIouCrop&) const { return true; }
  bool operator()(const ScaleJitter&) const { return true; }
  bool operator()(const RandomShortestSize&) const { return true; }
  bool operator()(const RandomResize&) const { return true; }
  bool operator()(const RandomApply& step) const { return may_change_size(step.steps); }
  bool operator()(const RandomChoice& step) const { return may_change_size(step.steps); }
  bool operator()(const RandomOrder& step) const { return may_change_size(step.steps); }
  template <class Other>
  bool operator()(const Other&) const {
    return false;
  }
};

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

Result<std::vector<Action>> draw_actions(std::span<const Step> steps, Size size,
                                         base::Random& random, Annotations* objects) {
  Drawer drawer(size, random, objects);
  drawer.draw_all(steps);
  return drawer.actions();
}

bool may_change_size(std::span<const Step> steps) {
  return std::ranges::any_of(steps,
                             [](const Step& step) { return std::visit(SizeChange(), step); });
}

}  // namespace forebay::image
