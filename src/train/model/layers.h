// The layers that the models are made of: plain structs of tensors, computed in the input's type.
#pragma once

#include <ATen/core/Generator.h>

#include "train/model/model.h"

namespace forebay::train {

// A convolution without a bias, because a batch norm follows. Keeps float32 weights; casts them to
// the input's type each time, which costs nothing beside the convolution and lets gradients arrive
// in float32.
struct Conv {
  at::Tensor weight;
  int64_t stride = 1;
  int64_t padding = 0;
  at::Tensor operator()(const at::Tensor& x) const;
  void add_work(BlockWork* work) const;
};

// Decorrelates patches of 2 x 2 pixels and gives them equal variance. The filters are the principal
// components of the patches, and the negatives of these, because ReLU then keeps from one what it
// removes from the other. They are not learned, but found from a batch of images. Images become one
// pixel smaller in width and height; images below 16 pixels are padded and become one pixel larger,
// so that they can still be halved three times. The layer follows Page 2018 and Jordan 2024, "94%
// on CIFAR-10 in 3.29 seconds on a single GPU".
struct Whitening {
  static constexpr int64_t kChannels = 24;
  at::Tensor weight;  // all zeros until find() has run
  // Finds the filters unless that is already done. Replicas that learn together must share them.
  void find(const at::Tensor& images);
  at::Tensor operator()(const at::Tensor& x) const;
  void add_work(BlockWork* work) const;
};

struct BatchNorm {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
  at::Tensor var;
  at::Tensor count;  // PyTorch's num_batches_tracked
  at::Tensor operator()(const at::Tensor& x, bool training) const;
};

// Computes in float32: the layer is small, and logits need the precision.
struct Linear {
  at::Tensor weight;
  at::Tensor bias;  // undefined when there is none
  at::Tensor operator()(const at::Tensor& x) const;
  void add_work(BlockWork* work) const;
};

// Makes layers with torch.nn's names, and enters their tensors into the model's lists. add() enters
// the block that the layers since the last add() are for. First weights are drawn like
// torchvision's for ResNets. identity_conv() begins as the identity for as many channels as it has
// inputs, so that the image passes through the network from the first step, which helps when there
// are few epochs; its other channels are drawn like torch.nn's.
class LayerMaker {
 public:
  LayerMaker(Model& model, uint64_t seed);
  Conv conv(const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);
  Conv identity_conv(const std::string& name, int64_t in, int64_t out, int64_t kernel);
  Whitening whitening(const std::string& name);
  BatchNorm batch_norm(const std::string& name, int64_t channels);
  Linear linear(const std::string& name, int64_t in, int64_t out, bool bias);
  void add(std::unique_ptr<Block> block);

 private:
  Model& model_;
  at::Generator random_;
};

}  // namespace forebay::train
