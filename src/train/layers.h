// The layers that the models are made of: plain structs of tensors, computed in the input's type.
#pragma once

#include <ATen/core/Generator.h>

#include "train/model.h"

namespace forebay::train {

// No bias: a batch norm follows. Keeps float32 weights; casts them to the input's type each time,
// which costs nothing beside the convolution and lets gradients arrive in float32.
struct Conv {
  at::Tensor weight;
  int64_t stride = 1;
  int64_t padding = 0;
  at::Tensor operator()(const at::Tensor& x) const;
};

struct BatchNorm {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
  at::Tensor var;
  at::Tensor count;  // num_batches_tracked
  at::Tensor operator()(const at::Tensor& x, bool training) const;
};

// In float32: it is small, and logits deserve the precision.
struct Linear {
  at::Tensor weight;
  at::Tensor bias;  // undefined: none
  at::Tensor operator()(const at::Tensor& x) const;
};

// Makes layers with torch.nn's names and first weights, and enters them into the model's lists.
class LayerMaker {
 public:
  LayerMaker(Model& model, uint64_t seed);
  Conv conv(const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);
  BatchNorm batch_norm(const std::string& name, int64_t channels);
  Linear linear(const std::string& name, int64_t in, int64_t out, bool bias);

 private:
  Model& model_;
  at::Generator random_;
};

}  // namespace forebay::train
