// What AutoAugment, RandAugment, TrivialAugment and AugMix draw, with torchvision v2's magnitudes,
// and what the operations of timm's policies draw.
#pragma once

#include "image/augment/steps.h"

namespace forebay::image {

// These append the actions that a policy draws for a picture of this size.
void draw_policy(const AutoAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const RandAugment& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const TrivialAugmentWide& policy, Size size, base::Random& random,
                 std::vector<Action>* to);
void draw_policy(const AugmentOp& step, Size size, base::Random& random, std::vector<Action>* to);
void draw_policy(const AugMix& policy, Size size, base::Random& random, std::vector<Action>* to);

}  // namespace forebay::image
