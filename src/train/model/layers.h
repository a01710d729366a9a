// The layers of the models: plain structs of tensors, which compute in the input's type.
#pragma once

#include <ATen/core/Generator.h>

#include "train/model/model.h"

namespace forebay::train {

// A convolution without a bias, because a batch norm follows. The weights are float32 and are cast
// to the input's type in each call. The cast costs nothing compared with the convolution, and
// gradients arrive in float32.
struct Conv {
  at::Tensor weight;
  int64_t stride = 1;
  int64_t padding = 0;
  at::Tensor operator()(const at::Tensor& x) const;
  void add_work(BlockWork* work) const;
};

// Decorrelates patches of 2 x 2 pixels and gives them equal variance. The filters are the principal
// components of the patches and their negatives: what ReLU removes from one of the two, it keeps
// from the other. The filters are not learned, but computed from a batch of images. Images become
// one pixel smaller in width and height; images below 16 pixels are padded and become one pixel
// larger, so that they can still be halved three times. The layer follows Page 2018 and Jordan
// 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU".
struct Whitening {
  static constexpr int64_t kChannels = 24;
  at::Tensor weight;  // all zeros until find() has run
  // Computes the filters from `images`, unless it has done so before. Processes that train one
  // model must share the filters.
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

// Makes layers with torch.nn's names, and appends their tensors to the model's lists. add() appends
// the block that consists of the layers since the last add(). Initial weights are drawn like
// torchvision's for ResNets. identity_conv() begins as the identity for as many channels as it has
// inputs, so that the image passes through the network from the first step, which helps in runs of
// few epochs; its other channels are drawn as in torch.nn.
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
