// Mixes the samples of a batch with each other: torchvision.transforms.v2.MixUp and CutMix.
#pragma once

#include <optional>
#include <span>

#include "base/random.h"
#include "image/transform/tensor.h"

namespace forebay::image {

// Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018; Yun et al., "CutMix:
// Regularization Strategy to Train Strong Classifiers with Localizable Features", 2019.
enum class MixKind : uint8_t { kMixUp, kCutMix };

// One of the ways in which a batch may be mixed.
struct MixChoice {
  MixKind kind = MixKind::kMixUp;
  double alpha = 1;   // above 0
  double weight = 1;  // its probability is weight / sum of all weights
};

// How a batch is mixed, after drawing.
struct Mix {
  MixKind kind = MixKind::kMixUp;
  // The weight of a sample's own label, and for kMixUp of its own pixels. The sample before it has
  // the remaining weight; for the first sample, that is the last one.
  double own = 1;
  std::optional<Rect> box = {};  // kCutMix: the part from the other sample, if any
};

// Draws with torchvision's distribution. `choices` has at least one entry, and the sum of weights
// is above 0.
Mix draw_mix(std::span<const MixChoice> choices, Size size, base::Random random);

struct BatchShape {
  size_t samples = 0;
  Size size;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNchw;
};

// Mixes the images of a batch in place, with the same bits as PyTorch's operators. kInvalid for
// kMixUp of bytes.
Status mix_images(const Mix& mix, const BatchShape& batch, uint8_t* images);
// Mixes labels, [samples, classes], in the same way.
void mix_labels(const Mix& mix, size_t samples, size_t classes, float* labels);

}  // namespace forebay::image
