// torchvision's resnet18 (He et al., "Deep Residual Learning", 2015): its names, shapes and first
// weights, so that files of weights go both ways.
#pragma once

#include <optional>

#include "train/layers.h"

namespace forebay::train {

class ResNet18 final : public Model {
 public:
  explicit ResNet18(const ModelOptions& options);
  at::Tensor forward(const at::Tensor& images, bool training) override;
  int64_t size_min() const override { return 8; }

 private:
  struct Shortcut {
    Conv conv;
    BatchNorm norm;
  };
  struct Block {
    Conv conv1;
    BatchNorm norm1;
    Conv conv2;
    BatchNorm norm2;
    std::optional<Shortcut> downsample;
    at::Tensor operator()(const at::Tensor& x, bool training) const;
  };
  static Block make_block(LayerMaker& make, const std::string& name, int64_t in, int64_t out,
                          int64_t stride);

  Conv conv1_;
  BatchNorm norm1_;
  std::vector<Block> blocks_;
  Linear linear_;
};

}  // namespace forebay::train
