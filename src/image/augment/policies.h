// The operations of AutoAugment, RandAugment, TrivialAugment and AugMix, with the magnitudes that
// torchvision v2 has for them.
#pragma once

#include "image/augment/steps.h"

namespace forebay::image {

enum class Operation : uint8_t {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColour,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize,
  kInvert,
};

// These append what a policy draws for a picture of this size.
void draw_policy(const AutoAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const RandAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const TrivialAugmentWide& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const AugMix& policy, Size size, base::Random& random, std::vector<Action>* to);

}  // namespace forebay::image
