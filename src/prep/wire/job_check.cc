#include "prep/wire/job_check.h"

#include <algorithm>
#include <type_traits>

#include "base/limits.h"
#include "image/transform/check.h"
#include "prep/wire/image_fields.h"

namespace forebay::prep {

using base::Code;
using base::fail;
using base::Status;
using image::check_range;

namespace {

template <class Action, class... Actions>
inline constexpr bool kIsOneOf = (std::is_same_v<Action, Actions> || ...);
template <class Action>
inline constexpr bool kIsDrawnForAPicture =
    kIsOneOf<Action, image::Blur, image::QuarterTurns, image::AffineWarp, image::Perspective,
             image::Cut, image::Blend>;

// Checks an action that stands as a step. image::check_steps() checks the numbers of other steps.
struct ActionCheck {
  static Status check_factor(const char* name, double factor) {
    return check_range(name, factor, 0.0, 1e6);
  }

  Status operator()(const image::Brightness& action) const {
    return check_factor("brightness", action.factor);
  }
  Status operator()(const image::Contrast& action) const {
    return check_factor("contrast", action.factor);
  }
  Status operator()(const image::Saturation& action) const {
    return check_factor("saturation", action.factor);
  }
  Status operator()(const image::Hue& action) const {
    return check_range("hue", action.shift, -0.5, 0.5);
  }
  Status operator()(const image::SolarizeAdd& action) const {
    RETURN_IF_ERROR(check_range("added", action.added, 0U, 255U));
    return check_range("threshold", action.threshold, 0U, 256U);
  }
  Status operator()(const image::PermuteChannels& action) const {
    for (const uint8_t channel : action.order) {
      RETURN_IF_ERROR(check_range<uint32_t>("channel", channel, 0, 2));
    }
    return {};
  }
  Status operator()(const image::Sharpness&) const { return {}; }
  Status operator()(const image::Posterize&) const { return {}; }
  Status operator()(const image::Solarize&) const { return {}; }
  Status operator()(const image::Invert&) const { return {}; }
  Status operator()(const image::Autocontrast&) const { return {}; }
  Status operator()(const image::Equalize&) const { return {}; }
  Status operator()(const image::Grey&) const { return {}; }
  Status operator()(const image::Flip&) const { return {}; }
  // The other actions are named here, so that a new one does not compile without a check.
  template <class Other>
    requires kIsDrawnForAPicture<Other>
  Status operator()(const Other&) const {
    return fail(Code::kInvalid, "{} fits only the picture that a step drew it for",
                base::kFieldsOf<Other>.type);
  }
};

// How many times steps draw for one sample, at most; saturates.
class Draws {
 public:
  uint64_t of(std::span<const image::Step> steps) const {
    uint64_t sum = 0;
    for (const image::Step& step : steps) sum = limited(sum + std::visit(*this, step));
    return sum;
  }

  uint64_t operator()(const image::RandomApply& step) const { return of(step.steps); }
  uint64_t operator()(const image::RandomOrder& step) const { return of(step.steps); }
  uint64_t operator()(const image::RandomChoice& step) const {
    return limited(step.count * most_of(step.steps));
  }
  uint64_t operator()(const image::ChainMixture& step) const {
    const uint64_t depth = step.depth == 0 ? 3 : step.depth;
    return limited(limited(step.width * depth) * most_of(step.steps));
  }
  uint64_t operator()(const image::AugMix& step) const {
    return limited(uint64_t{step.width} * (step.depth == 0 ? 3 : step.depth));
  }
  uint64_t operator()(const image::RandAugment& step) const { return limited(step.count); }
  template <class Other>
  uint64_t operator()(const Other&) const {
    return 1;
  }

 private:
  // Keeps sums and products of two results below 2^64.
  static uint64_t limited(uint64_t draws) { return std::min(draws, base::kJobDrawsMax + 1); }
  uint64_t most_of(std::span<const image::Step> steps) const {
    uint64_t most = 0;
    for (const image::Step& step : steps) most = std::max(most, std::visit(*this, step));
    return most;
  }
};

Status check_actions(std::span<const image::Step> steps);

struct StepCheck {
  Status operator()(const image::Action& action) const { return std::visit(ActionCheck(), action); }
  template <class Other>
  Status operator()(const Other& step) const {
    if constexpr (requires { step.steps; }) return check_actions(step.steps);
    return {};
  }
};

Status check_actions(std::span<const image::Step> steps) {
  for (const image::Step& step : steps) RETURN_IF_ERROR(std::visit(StepCheck(), step));
  return {};
}

}  // namespace

Status check_job_steps(std::span<const image::Step> steps) {
  RETURN_IF_ERROR(check_actions(steps));
  if (Draws().of(steps) <= base::kJobDrawsMax) return {};
  return fail(Code::kInvalid, "the steps may draw more than {} times for one sample",
              base::kJobDrawsMax);
}

}  // namespace forebay::prep
