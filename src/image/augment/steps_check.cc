#include "base/limits.h"
#include "image/augment/steps.h"

namespace forebay::image {

using base::Code;
using base::fail;

namespace {

Status check_range(const char* name, const Range& range, double least, double most) {
  // The condition is negated so that a NaN does not pass.
  if (range.min >= least && range.min <= range.max && range.max <= most) return {};
  return fail(Code::kInvalid, "{} is from {} to {}, but must ascend, from {} to {}", name,
              range.min, range.max, least, most);
}

template <class T>
Status check_number(const char* name, T value, T least, T most) {
  if (value >= least && value <= most) return {};
  return fail(Code::kInvalid, "{} is {}, but must be from {} to {}", name, value, least, most);
}

Status check_warp(const WarpOptions& options) {
  if (options.interpolation == Interpolation::kBicubic) {
    return fail(Code::kInvalid,
                "interpolation of warps is bicubic, but must be nearest or bilinear");
  }
  for (const float level : options.fill.value_or(std::array<float, 3>{})) {
    RETURN_IF_ERROR(check_number("fill", level, 0.0F, 255.0F));
  }
  return {};
}

// Checks the options of each kind of step.
struct Checker {
  Size size;

  Status operator()(const Action& action) const {
    return std::visit([&](const auto& kind) { return check(kind); }, action);
  }
  Status operator()(const ColourJitter& step) const {
    const Range one{1, 1};
    const Range none{0, 0};
    RETURN_IF_ERROR(check_factors("brightness", step.brightness.value_or(one)));
    RETURN_IF_ERROR(check_factors("contrast", step.contrast.value_or(one)));
    RETURN_IF_ERROR(check_factors("saturation", step.saturation.value_or(one)));
    return check_range("hue", step.hue.value_or(none), -0.5, 0.5);
  }
  Status operator()(const PhotometricDistortion& step) const {
    RETURN_IF_ERROR(
        (*this)(ColourJitter{step.brightness, step.contrast, step.saturation, step.hue}));
    return check_number("probability", step.probability, 0.0, 1.0);
  }
  Status operator()(const ChannelPermutation&) const { return {}; }
  Status operator()(const GaussianBlur& step) const {
    RETURN_IF_ERROR(check_range("sigma", step.sigma, 1e-3, 1e6));
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
      RETURN_IF_ERROR(check_number("translate", share, 0.0, 1.0));
    }
    RETURN_IF_ERROR(check_range("scale", step.scale.value_or(Range{1, 1}), 1e-6, 1e6));
    for (const Range& degrees : step.shear.value_or(std::array<Range, 2>{})) {
      RETURN_IF_ERROR(check_range("shear", degrees, -89, 89));
    }
    RETURN_IF_ERROR(check_centre(step.centre));
    return check_warp(step.options);
  }
  Status operator()(const RandomPerspective& step) const {
    RETURN_IF_ERROR(check_number("distortion_scale", step.distortion, 0.0, 1.0));
    RETURN_IF_ERROR(check_number("probability", step.probability, 0.0, 1.0));
    return check_warp(step.options);
  }
  Status operator()(const AutoAugment& step) const { return check_warp(step.options); }
  Status operator()(const RandAugment& step) const {
    RETURN_IF_ERROR(check_number("num_ops", step.count, 0U, base::kPolicyStepsMax));
    RETURN_IF_ERROR(check_number("num_magnitude_bins", step.bins, 1U, base::kPolicyStepsMax));
    RETURN_IF_ERROR(check_number("magnitude", step.magnitude, 0U, step.bins - 1));
    return check_warp(step.options);
  }
  Status operator()(const TrivialAugmentWide& step) const {
    RETURN_IF_ERROR(check_number("num_magnitude_bins", step.bins, 1U, base::kPolicyStepsMax));
    return check_warp(step.options);
  }
  Status operator()(const AugMix& step) const {
    RETURN_IF_ERROR(check_number("severity", step.severity, 1U, 10U));
    RETURN_IF_ERROR(check_number("mixture_width", step.width, 1U, base::kPolicyStepsMax));
    const uint32_t depth_most = base::kPolicyStepsMax / step.width;
    RETURN_IF_ERROR(check_number("chain_depth", step.depth, 0U, depth_most));
    RETURN_IF_ERROR(check_number("alpha", step.alpha, 1e-6, 1e6));
    return check_warp(step.options);
  }
  Status operator()(const RandomApply& step) const {
    RETURN_IF_ERROR(check_number("probability", step.probability, 0.0, 1.0));
    return check_steps(step.steps, size);
  }
  Status operator()(const RandomChoice& step) const {
    double total = 0;
    for (const double weight : step.weights) {
      RETURN_IF_ERROR(check_number("weight of a choice", weight, 0.0, 1e9));
      total += weight;
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
    return check_range(name, range, 0, 1e6);
  }
  static Status check_degrees(const char* name, const Range& range) {
    return check_range(name, range, -1e6, 1e6);
  }

  static Status check_centre(const Centre& centre) {
    for (const double pixels : centre.value_or(std::array<double, 2>{})) {
      RETURN_IF_ERROR(check_number("center", pixels, -1e6, 1e6));
    }
    return {};
  }

  // Most actions that users may write make sense with any value. The others have a check below.
  template <class Any>
  Status check(const Any&) const {
    return {};
  }
  Status check(const Sharpness& action) const {
    return check_number("sharpness", action.factor, 0.0, 1e6);
  }
  Status check(const Posterize& action) const { return check_number("bits", action.bits, 0U, 8U); }
  Status check(const Solarize& action) const {
    return check_number("threshold", action.threshold, -1e6, 1e6);
  }
  Status check(const Blur& action) const {
    const std::array<uint32_t, 2> sides{size.width, size.height};
    for (size_t i = 0; i < 2; ++i) {
      const uint32_t length = action.length[i];
      if (length % 2 == 1 && length / 2 < sides[i] && length <= base::kBlurLengthMax) continue;
      return fail(
          Code::kInvalid,
          "kernel_size is {} for a side of {} pixels, but must be odd, at most {}, and its half, "
          "rounded down, below the side",
          length, sides[i], base::kBlurLengthMax);
    }
    return {};
  }
};

}  // namespace

Status check_steps(std::span<const Step> steps, Size size) {
  for (const Step& step : steps) RETURN_IF_ERROR(std::visit(Checker{size}, step));
  return {};
}

}  // namespace forebay::image
