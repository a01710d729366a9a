// The random steps of an augmentation after the crop, with torchvision v2's parameters and
// distributions. A step draws actions for a sample from the picture's size alone, without its
// pixels.
#pragma once

#include "base/random.h"
#include "image/augment/action.h"

namespace forebay::image {

struct Range {
  double min = 0;
  double max = 0;
};

// Each is drawn uniformly, if set, and they are done in a random order.
struct ColourJitter {
  std::optional<Range> brightness = {};
  std::optional<Range> contrast = {};
  std::optional<Range> saturation = {};
  std::optional<Range> hue = {};
};

// SSD's distortion: brightness, contrast, saturation, hue and contrast again, and the channels in
// another order, each with this probability; contrast once only, before or after.
struct PhotometricDistortion {
  Range brightness = {0.875, 1.125};
  Range contrast = {0.5, 1.5};
  Range saturation = {0.5, 1.5};
  Range hue = {-0.05, 0.05};
  double probability = 0.5;
};

struct ChannelPermutation {};

struct GaussianBlur {
  std::array<uint32_t, 2> length = {3, 3};  // of the weights, across and down; odd
  Range sigma = {0.1, 2.0};
};

// A point that stays where it is, in pixels from the top left corner. Unset: the middle.
using Centre = std::optional<std::array<double, 2>>;

struct RandomRotation {
  Range degrees;  // counter-clockwise
  WarpOptions options = {};
  Centre centre = {};
};

struct RandomAffine {
  Range degrees;                                        // clockwise
  std::optional<std::array<double, 2>> translate = {};  // at most, in widths and heights
  std::optional<Range> scale = {};
  std::optional<std::array<Range, 2>> shear = {};  // degrees along x and y
  WarpOptions options = {};
  Centre centre = {};
};

// Moves each corner inwards by up to `distortion` times half of each side.
struct RandomPerspective {
  double distortion = 0.5;
  double probability = 0.5;
  WarpOptions options = {.interpolation = Interpolation::kBilinear};
};

// Policies: Cubuk et al., CVPR 2019 and 2020; Müller and Hutter, ICCV 2021; Hendrycks et al., ICLR
// 2020.
enum class Policy : uint8_t { kImageNet, kCifar10, kSvhn };
struct AutoAugment {
  Policy policy = Policy::kImageNet;
  WarpOptions options = {};
};
struct RandAugment {
  uint32_t count = 2;
  uint32_t magnitude = 9;  // below `bins`
  uint32_t bins = 31;
  WarpOptions options = {};
};
struct TrivialAugmentWide {
  uint32_t bins = 31;
  WarpOptions options = {};
};
struct AugMix {
  uint32_t severity = 3;  // from 1 to 10
  uint32_t width = 3;
  uint32_t depth = 0;  // of each chain; 0: from 1 to 3
  double alpha = 1;
  bool all = true;  // also brightness, colour, contrast and sharpness
  WarpOptions options = {.interpolation = Interpolation::kBilinear};
};

struct RandomApply;
struct RandomChoice;
struct RandomOrder;
using Step =
    std::variant<Action, ColourJitter, PhotometricDistortion, ChannelPermutation, GaussianBlur,
                 RandomRotation, RandomAffine, RandomPerspective, AutoAugment, RandAugment,
                 TrivialAugmentWide, AugMix, RandomApply, RandomChoice, RandomOrder>;

// The lists below have no initialisers, as Step is not complete where they are declared.

// All of the steps, or none of them.
struct RandomApply {
  double probability = 0.5;
  std::vector<Step> steps;
};
// One of the steps, by weights.
struct RandomChoice {
  std::vector<double> weights;
  std::vector<Step> steps;
};
struct RandomOrder {
  std::vector<Step> steps;
};

// Draws what is done to a picture of this size.
std::vector<Action> draw_actions(std::span<const Step> steps, Size size, base::Random& random);

// Appends a rotation by this angle, counter-clockwise; by whole quarters where that is the same.
void add_rotation(double degrees, const Centre& centre, Size size, const WarpOptions& options,
                  std::vector<Action>* to);

// Returns kInvalid, with the name of the first bad option, when steps cannot be drawn for pictures
// of this size.
Status check_steps(std::span<const Step> steps, Size size);

}  // namespace forebay::image
