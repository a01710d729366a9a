// Mixing the samples of a batch with each other: torchvision.transforms.v2.MixUp and CutMix.
#pragma once

#include <optional>
#include <span>

#include "base/random.h"
#include "image/tensor.h"

namespace forebay::image {

// Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018; Yun et al., "CutMix:
// Regularization Strategy to Train Strong Classifiers with Localizable Features", 2019.
enum class MixKind : uint8_t { kMixUp, kCutMix };

// One of those that a batch is mixed with.
struct MixChoice {
  MixKind kind = MixKind::kMixUp;
  double alpha = 1;   // above 0
  double weight = 1;  // how likely it is, among all weights
};

// What is drawn for a batch.
struct Mix {
  MixKind kind = MixKind::kMixUp;
  // The weight of a sample's own label, and in kMixUp of its own pixels; the rest is that of the
  // sample before it, for the first one the last.
  double own = 1;
  std::optional<Rect> box = {};  // kCutMix: what is the other sample's; nothing where it is empty
};

// With torchvision's distribution. `choices`: at least one, of weights that make more than 0.
Mix draw_mix(std::span<const MixChoice> choices, Size size, base::Random random);

struct BatchShape {
  size_t samples = 0;
  Size size;
  DType dtype = DType::kFloat32;
  Layout layout = Layout::kNchw;
};

// Mixes the images of a batch in place, bit for bit as PyTorch's operators do. kInvalid for kMixUp
// of bytes.
Status mix_images(const Mix& mix, const BatchShape& batch, uint8_t* images);
// The same of labels, [samples, classes].
void mix_labels(const Mix& mix, size_t samples, size_t classes, float* labels);

}  // namespace forebay::image
