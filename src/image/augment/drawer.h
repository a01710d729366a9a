// Draws the actions of steps for one picture. Callers use draw_actions() in steps.h.
#pragma once

#include "image/augment/policies.h"

namespace forebay::image {

inline double draw_within(const Range& range, base::Random& random) {
  return range.min + (range.max - range.min) * random.uniform();
}
inline bool happens(double probability, base::Random& random) {
  return random.uniform() < probability;
}

// Draws the actions of each kind of step.
class Drawer {
 public:
  Drawer(Size size, base::Random& random, Annotations* objects)
      : size_(size), random_(random), objects_(objects) {}

  void draw_all(std::span<const Step> steps) {
    for (const Step& step : steps) draw_one(step);
  }
  Result<std::vector<Action>> actions() {
    if (!status_.ok()) return tl::unexpected(status_);
    return std::move(actions_);
  }

  void operator()(const Action& action) { actions_.push_back(action); }
  void operator()(const ColourJitter& step);
  void operator()(const PhotometricDistortion& step);
  void operator()(const ChannelPermutation&);
  void operator()(const GaussianBlur& step);
  void operator()(const RandomRotation& step);
  void operator()(const RandomAffine& step);
  void operator()(const RandomPerspective& step);
  void operator()(const Cropping& step) {
    add_cut(draw_cut(step.crop, step.size, size_, random_), step.interpolation);
  }
  void operator()(const Pad& step);
  void operator()(const RandomZoomOut& step);
  void operator()(const RandomIouCrop& step);
  void operator()(const ScaleJitter& step);
  void operator()(const RandomShortestSize& step);
  void operator()(const RandomResize& step);
  void operator()(const AutoAugment& step) { draw_policy(step, size_, random_, &actions_); }
  void operator()(const RandAugment& step) { draw_policy(step, size_, random_, &actions_); }
  void operator()(const TrivialAugmentWide& step) { draw_policy(step, size_, random_, &actions_); }
  void operator()(const AugMix& step) { draw_policy(step, size_, random_, &actions_); }
  void operator()(const AugmentOp& step) { draw_policy(step, size_, random_, &actions_); }
  void operator()(const ChainMixture& step);
  void operator()(const RandomApply& step) {
    if (happens(step.probability, random_)) draw_all(step.steps);
  }
  void operator()(const RandomChoice& step);
  void operator()(const RandomOrder& step);

 private:
  void draw_one(const Step& step);
  void add_cut(Result<Cut> cut, Interpolation interpolation = Interpolation::kBilinear);
  // Adds a resize of both sides by `factor`, rounded down.
  void add_scaled(double factor, Interpolation interpolation);
  bool keeps_enough(const Rect& crop, double overlap) const;
  std::optional<Rect> draw_iou_crop(const RandomIouCrop& step);

  Size size_;  // of the picture after the actions
  base::Random& random_;
  Annotations* const objects_;  // after the actions; or null
  std::vector<Action> actions_;
  Status status_ = {};
};

}  // namespace forebay::image
