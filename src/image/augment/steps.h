// The random steps of an augmentation, with torchvision v2's parameters and distributions. A step
// draws actions for a sample from the picture's size and annotations, without its pixels.
#pragma once

#include "base/random.h"
#include "image/augment/annotations.h"

namespace forebay::image {

struct Range {
  double min = 0;
  double max = 0;
};

// The factors that are set are drawn uniformly, and applied in random order.
struct ColourJitter {
  std::optional<Range> brightness = {};
  std::optional<Range> contrast = {};
  std::optional<Range> saturation = {};
  std::optional<Range> hue = {};
};

// SSD's distortion: brightness, contrast, saturation, hue and a permutation of the channels, each
// with this probability. Contrast is applied once, either before saturation or after hue.
struct PhotometricDistortion {
  Range brightness = {0.875, 1.125};
  Range contrast = {0.5, 1.5};
  Range saturation = {0.5, 1.5};
  Range hue = {-0.05, 0.05};
  double probability = 0.5;
};

struct ChannelPermutation {};

struct GaussianBlur {
  std::array<uint32_t, 2> length = {3, 3};  // number of weights, across and down; odd
  Range sigma = {0.1, 2.0};
};

// The fixed point, in pixels from the top left corner. Unset: the middle.
using Centre = std::optional<std::array<double, 2>>;

struct RandomRotation {
  Range degrees;  // counter-clockwise
  WarpOptions options = {};
  Centre centre = {};
  bool expand = false;  // whether the result is as large as the turned picture
};

struct RandomAffine {
  Range degrees;                                        // clockwise
  std::optional<std::array<double, 2>> translate = {};  // the most, as shares of width and height
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

// A crop, or the whole picture resized, in the middle of an augmentation. `size` has the meaning
// that it has in draw_cut().
struct Cropping {
  Crop crop;
  Size size = {};
  Interpolation interpolation = Interpolation::kBilinear;
};

struct Pad {
  Padding padding;
  Border border = {};
};

// Puts the picture on a canvas of one colour, whose sides are `factor` times as long (SSD).
struct RandomZoomOut {
  Range factor = {1, 4};
  std::array<uint8_t, 3> fill = {0, 0, 0};
  double probability = 0.5;
  uint8_t mask_fill = 0;  // the label of the canvas in a map of labels
};

// A crop that contains the middle of at least one box whose overlap with the crop (intersection
// over union) reaches a drawn value. If that value is 1 or more, the picture stays as it is (SSD).
// Boxes whose middle lies outside the crop become empty.
struct RandomIouCrop {
  Range scale = {0.3, 1};  // of each side
  Range ratio = {0.5, 2};  // width to height
  std::vector<double> overlaps = {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0};
  uint32_t trials = 40;  // for each drawn overlap
};

// These resize the picture to a drawn size and keep its aspect ratio.
struct ScaleJitter {
  Size target;
  Range scale = {0.1, 2};
  Interpolation interpolation = Interpolation::kBilinear;
};
struct RandomShortestSize {
  std::vector<uint32_t> sizes = {};      // pixels of the short side
  std::optional<uint32_t> longest = {};  // pixels; the most of the long side
  Interpolation interpolation = Interpolation::kBilinear;
};
struct RandomResize {
  uint32_t min = 1;  // pixels of the short side
  uint32_t max = 2;  // one more than the largest
  Interpolation interpolation = Interpolation::kBilinear;
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
  uint32_t depth = 0;  // actions in each chain; 0: drawn from 1 to 3
  double alpha = 1;
  bool all = true;  // whether brightness, colour, contrast and sharpness are used too
  WarpOptions options = {.interpolation = Interpolation::kBilinear};
};

// An operation of timm's policies with a magnitude, which may be drawn. The operation's argument is
// base + slope * level, where level is magnitude / 10.
enum class Operation : uint8_t {
  kAutocontrast,
  kEqualize,
  kInvert,
  kRotate,       // degrees, counter-clockwise
  kPosterize,    // bits that are kept
  kSolarize,     // threshold
  kSolarizeAdd,  // the level that is added
  kColour,       // factors
  kContrast,
  kBrightness,
  kSharpness,
  kShearX,  // tangents
  kShearY,
  kTranslateX,  // pixels
  kTranslateY,
  kTranslateXShare,  // shares of the side
  kTranslateYShare,
  kBlur,      // sigma in pixels
  kBlurUpTo,  // the largest sigma; it is drawn from 0.1 on
};
struct AugmentOp {
  Operation operation = Operation::kAutocontrast;
  double probability = 0.5;
  double magnitude = 10;
  // The standard deviation of the magnitude; unset: the magnitude is uniform from 0 to `magnitude`.
  std::optional<double> deviation = 0;
  double magnitude_most = 10;
  double base = 0;
  double slope = 0;
  bool either_sign = false;  // whether the slope's sign is drawn
  bool whole = false;        // whether slope * level is rounded towards 0
  double least = 0;          // limits of the argument
  double most = 0;
  WarpOptions options = {};
};

struct ChainMixture;
struct RandomApply;
struct RandomChoice;
struct RandomOrder;
using Step = std::variant<Action, ColourJitter, PhotometricDistortion, ChannelPermutation,
                          GaussianBlur, RandomRotation, RandomAffine, RandomPerspective, Cropping,
                          Pad, RandomZoomOut, RandomIouCrop, ScaleJitter, RandomShortestSize,
                          RandomResize, AutoAugment, RandAugment, TrivialAugmentWide, AugMix,
                          AugmentOp, ChainMixture, RandomApply, RandomChoice, RandomOrder>;

// The lists below have no initialisers, because Step is incomplete where they are declared.

// Applies all of the steps, or none of them.
struct RandomApply {
  double probability = 0.5;
  std::vector<Step> steps;
};
// Applies `count` steps, one after the other, each drawn by the weights.
struct RandomChoice {
  std::vector<double> weights;
  std::vector<Step> steps;
  uint32_t count = 1;
  bool may_repeat = true;  // whether a step can be drawn again
};
// AugMix of any steps, none of which may change the size: blends the picture with `width` chains,
// each of `depth` of the steps (0: drawn from 1 to 3).
struct ChainMixture {
  uint32_t width = 3;
  uint32_t depth = 0;
  double alpha = 1;
  std::vector<Step> steps;
};
struct RandomOrder {
  std::vector<Step> steps;
};

// Draws the actions for a picture of this size, and moves its annotations, `objects`, unless that
// is null. Errors: kInvalid and kTooBig if the picture does not fit a step.
Result<std::vector<Action>> draw_actions(std::span<const Step> steps, Size size,
                                         base::Random& random, Annotations* objects = nullptr);

// Appends a counter-clockwise rotation by this angle, as quarter turns if the result is the same.
void add_rotation(double degrees, const Centre& centre, Size size, const WarpOptions& options,
                  std::vector<Action>* to);

// Returns kInvalid, with the name of the first bad option, if steps cannot be drawn for pictures of
// this size; without a size, for pictures of any size.
Status check_steps(std::span<const Step> steps, const std::optional<Size>& size);
// Whether a step may change the size of a picture.
bool may_change_size(std::span<const Step> steps);

}  // namespace forebay::image
