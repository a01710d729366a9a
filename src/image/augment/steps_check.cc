#include "base/limits.h"
#include "image/augment/steps.h"
#include "image/transform/check.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

Status check_ascending(const char* name, const Range& range, double least, double most) {
  // The condition is negated so that a NaN does not pass.
  if (range.min >= least && range.min <= range.max && range.max <= most) return {};
  return fail(Code::kInvalid, "{} is from {} to {}, but must ascend within {} to {}", name,
              range.min, range.max, least, most);
}

Status check_warp(const WarpOptions& options) {
  if (options.interpolation != Interpolation::kNearest &&
      options.interpolation != Interpolation::kBilinear) {
    return fail(Code::kInvalid, "interpolation of warps is {}, but must be nearest or bilinear",
                options.interpolation == Interpolation::kBicubic ? "bicubic" : "nearest-exact");
  }
  for (const float level : options.fill.value_or(std::array<float, 3>{})) {
    RETURN_IF_ERROR(check_range("fill", level, 0.0F, 255.0F));
  }
  return {};
}

// Returns the arguments that an operation accepts.
Range limits_of(Operation operation) {
  switch (operation) {
    case Operation::kPosterize:
      return {0, 8};
    case Operation::kSolarizeAdd:
      return {0, 255};
    case Operation::kColour:
    case Operation::kContrast:
    case Operation::kBrightness:
    case Operation::kSharpness:
      return {0, 1e6};
    case Operation::kBlur:
    case Operation::kBlurUpTo:
      return {0.1, 100};
    default:
      return {-1e6, 1e6};
  }
}

// Checks the options of each kind of step.
struct Checker {
  std::optional<Size> size;  // of the picture, if known

  Status operator()(const Action& action) const {
    return std::visit([&](const auto& kind) { return check(kind); }, action);
  }
  Status operator()(const ColourJitter& step) const {
    const Range one{1, 1};
    const Range none{0, 0};
    RETURN_IF_ERROR(check_factors("brightness", step.brightness.value_or(one)));
    RETURN_IF_ERROR(check_factors("contrast", step.contrast.value_or(one)));
    RETURN_IF_ERROR(check_factors("saturation", step.saturation.value_or(one)));
    return check_ascending("hue", step.hue.value_or(none), -0.5, 0.5);
  }
  Status operator()(const PhotometricDistortion& step) const {
    RETURN_IF_ERROR(
        (*this)(ColourJitter{step.brightness, step.contrast, step.saturation, step.hue}));
    return check_range("probability", step.probability, 0.0, 1.0);
  }
  Status operator()(const ChannelPermutation&) const { return {}; }
  Status operator()(const GaussianBlur& step) const {
    RETURN_IF_ERROR(check_ascending("sigma", step.sigma, 1e-3, 1e6));
    return check(Blur{step.length, {step.sigma.min, step.sigma.max}});
  }
  Status operator()(const RandomRotation& step) const {
    RETURN_IF_ERROR(check_degrees("degrees", step.degrees));
    RETURN_IF_ERROR(check_centre(step.centre));
    return check_warp(step.options);
  }
  Status operator()(const RandomAffine& step) const {
    RETURN_IF_ERROR(check_degrees("degrees", step.degrees));
    for (const double share : step.translate.value_or(std::array<double, 2>{})) {
      RETURN_IF_ERROR(check_range("translate", share, 0.0, 1.0));
    }
    RETURN_IF_ERROR(check_ascending("scale", step.scale.value_or(Range{1, 1}), 1e-6, 1e6));
    for (const Range& degrees : step.shear.value_or(std::array<Range, 2>{})) {
      RETURN_IF_ERROR(check_ascending("shear", degrees, -89, 89));
    }
    RETURN_IF_ERROR(check_centre(step.centre));
    return check_warp(step.options);
  }
  Status operator()(const RandomPerspective& step) const {
    RETURN_IF_ERROR(check_range("distortion_scale", step.distortion, 0.0, 1.0));
    RETURN_IF_ERROR(check_range("probability", step.probability, 0.0, 1.0));
    return check_warp(step.options);
  }
  Status operator()(const Cropping& step) const {
    if (step.size != Size{} || !std::holds_alternative<WholeImage>(step.crop)) {
      RETURN_IF_ERROR(check_size("size", step.size));
    }
    return check_crop(step.crop);
  }
  Status operator()(const Pad& step) const { return check_padding(step.padding); }
  Status operator()(const RandomZoomOut& step) const {
    RETURN_IF_ERROR(check_ascending("side_range", step.factor, 1, base::kImageSideMax));
    return check_range("probability", step.probability, 0.0, 1.0);
  }
  Status operator()(const RandomIouCrop& step) const {
    RETURN_IF_ERROR(check_ascending("scale", step.scale, 0, 1));
    RETURN_IF_ERROR(check_ascending("aspect ratio", step.ratio, 1e-6, 1e6));
    RETURN_IF_ERROR(check_range("trials", step.trials, 1U, base::kPolicyStepsMax));
    RETURN_IF_ERROR(
        check_range<size_t>("number of overlaps", step.overlaps.size(), 1, base::kPolicyStepsMax));
    for (const double overlap : step.overlaps) {
      RETURN_IF_ERROR(check_range("overlap", overlap, 0.0, 1e6));
    }
    return {};
  }
  Status operator()(const ScaleJitter& step) const {
    RETURN_IF_ERROR(check_size("target_size", step.target));
    return check_ascending("scale_range", step.scale, 1e-6, 1e6);
  }
  Status operator()(const RandomShortestSize& step) const {
    RETURN_IF_ERROR(
        check_range<size_t>("number of sizes", step.sizes.size(), 1, base::kPolicyStepsMax));
    for (const uint32_t side : step.sizes) {
      RETURN_IF_ERROR(check_range("min_size", side, 1U, base::kImageSideMax));
    }
    return check_range("max_size", step.longest.value_or(1), 1U, base::kImageSideMax);
  }
  Status operator()(const RandomResize& step) const {
    RETURN_IF_ERROR(check_range("min_size", step.min, 1U, base::kImageSideMax));
    return check_range("max_size", step.max, step.min + 1, base::kImageSideMax + 1);
  }
  Status operator()(const AutoAugment& step) const { return check_warp(step.options); }
  Status operator()(const RandAugment& step) const {
    RETURN_IF_ERROR(check_range("num_ops", step.count, 0U, base::kPolicyStepsMax));
    RETURN_IF_ERROR(check_range("num_magnitude_bins", step.bins, 1U, base::kPolicyStepsMax));
    RETURN_IF_ERROR(check_range("magnitude", step.magnitude, 0U, step.bins - 1));
    return check_warp(step.options);
  }
  Status operator()(const TrivialAugmentWide& step) const {
    RETURN_IF_ERROR(check_range("num_magnitude_bins", step.bins, 1U, base::kPolicyStepsMax));
    return check_warp(step.options);
  }
  Status operator()(const AugMix& step) const {
    RETURN_IF_ERROR(check_range("severity", step.severity, 1U, 10U));
    RETURN_IF_ERROR(check_range("mixture_width", step.width, 1U, base::kPolicyStepsMax));
    const uint32_t depth_most = base::kPolicyStepsMax / step.width;
    RETURN_IF_ERROR(check_range("chain_depth", step.depth, 0U, depth_most));
    RETURN_IF_ERROR(check_range("alpha", step.alpha, 1e-6, 1e6));
    return check_warp(step.options);
  }
  Status operator()(const AugmentOp& step) const {
    RETURN_IF_ERROR(check_range("probability", step.probability, 0.0, 1.0));
    RETURN_IF_ERROR(check_range("magnitude", step.magnitude, 0.0, 1e6));
    RETURN_IF_ERROR(check_range("deviation", step.deviation.value_or(0), 0.0, 1e6));
    RETURN_IF_ERROR(check_range("largest magnitude", step.magnitude_most, 0.0, 1e6));
    RETURN_IF_ERROR(check_range("slope", step.slope, -1e6, 1e6));
    const auto [least, most] = limits_of(step.operation);
    RETURN_IF_ERROR(check_range("base", step.base, -1e6, 1e6));
    RETURN_IF_ERROR(check_ascending("argument", {step.least, step.most}, least, most));
    return check_warp(step.options);
  }
  Status operator()(const ChainMixture& step) const {
    RETURN_IF_ERROR(check_range("width", step.width, 1U, base::kPolicyStepsMax));
    const uint32_t depth_most = base::kPolicyStepsMax / step.width;
    RETURN_IF_ERROR(check_range("depth", step.depth, 0U, depth_most));
    RETURN_IF_ERROR(check_range("alpha", step.alpha, 1e-6, 1e6));
    if (step.steps.empty() || may_change_size(step.steps)) {
      return fail(Code::kInvalid,
                  "a mixture needs at least one step, and none of its steps may change the size");
    }
    return check_steps(step.steps, size);
  }
  Status operator()(const RandomApply& step) const {
    RETURN_IF_ERROR(check_range("probability", step.probability, 0.0, 1.0));
    return check_steps(step.steps, size);
  }
  Status operator()(const RandomChoice& step) const {
    double total = 0;
    size_t possible = 0;
    for (const double weight : step.weights) {
      RETURN_IF_ERROR(check_range("weight of a choice", weight, 0.0, 1e9));
      total += weight;
      possible += weight > 0 ? 1 : 0;
    }
    RETURN_IF_ERROR(check_range("number of choices", step.count, 0U, base::kPolicyStepsMax));
    if (!step.may_repeat && step.count > possible) {
      return fail(Code::kInvalid, "{} of {} steps cannot be chosen without repeating one",
                  step.count, possible);
    }
    if (step.steps.empty() || step.weights.size() != step.steps.size() || total == 0) {
      return fail(
          Code::kInvalid,
          "a choice of {} steps has {} weights with the sum {}, but needs a step and as many "
          "weights as steps, one of them above 0",
          step.steps.size(), step.weights.size(), total);
    }
    return check_steps(step.steps, size);
  }
  Status operator()(const RandomOrder& step) const { return check_steps(step.steps, size); }

 private:
  static Status check_factors(const char* name, const Range& range) {
    return check_ascending(name, range, 0, 1e6);
  }
  static Status check_degrees(const char* name, const Range& range) {
    return check_ascending(name, range, -1e6, 1e6);
  }

  static Status check_centre(const Centre& centre) {
    for (const double pixels : centre.value_or(std::array<double, 2>{})) {
      RETURN_IF_ERROR(check_range("center", pixels, -1e6, 1e6));
    }
    return {};
  }

  // Most actions that users may write accept any value. The others have a check below.
  template <class Any>
  Status check(const Any&) const {
    return {};
  }
  Status check(const Sharpness& action) const {
    return check_range("sharpness", action.factor, 0.0, 1e6);
  }
  Status check(const Posterize& action) const { return check_range("bits", action.bits, 0U, 8U); }
  Status check(const Solarize& action) const {
    return check_range("threshold", action.threshold, -1e6, 1e6);
  }
  Status check(const Blur& action) const {
    const Size most = size.value_or(Size{base::kImageSideMax, base::kImageSideMax});
    const std::array<uint32_t, 2> sides{most.width, most.height};
    for (size_t i = 0; i < 2; ++i) {
      const uint32_t length = action.length[i];
      if (length % 2 == 1 && length / 2 < sides[i] && length <= base::kBlurLengthMax) continue;
      return fail(
          Code::kInvalid,
          "kernel_size is {} for a side of {} pixels, but must be odd, at most {}, and less than "
          "twice the side",
          length, sides[i], base::kBlurLengthMax);
    }
    return {};
  }
};

}  // namespace

Status check_steps(std::span<const Step> steps, const std::optional<Size>& size) {
  Checker checker{size};
  for (const Step& step : steps) {
    RETURN_IF_ERROR(std::visit(checker, step));
    if (may_change_size({&step, 1})) checker.size.reset();
  }
  return {};
}

}  // namespace forebay::image
