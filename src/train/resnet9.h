// The small residual network of David Page's "How to train your ResNet" (DAWNBench, 2018), for
// images of about 32 pixels. Odd on purpose: pooling comes before the batch norm, which makes norm
// and ReLU four times cheaper.
#pragma once

#include "train/layers.h"

namespace forebay::train {

class ResNet9 final : public Model {
 public:
  explicit ResNet9(const ModelOptions& options);
  at::Tensor forward(const at::Tensor& images, bool training) override;
  int64_t size_min() const override { return 8; }

 private:
  struct Block {
    Conv conv;
    BatchNorm norm;
    bool pool = false;
    at::Tensor operator()(const at::Tensor& x, bool training) const;
  };
  Block prepare_;
  Block grow1_, residual1a_, residual1b_;
  Block grow2_, grow3_, residual3a_, residual3b_;
  Linear linear_;
};

}  // namespace forebay::train
