#include "train/model/layers.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

namespace forebay::train {

namespace {

constexpr double kBatchNormMomentum = 0.1;
constexpr double kBatchNormEpsilon = 1e-5;
constexpr int64_t kWhiteningSide = 2;
constexpr int64_t kPaddedBelow = 16;
constexpr double kWhiteningEpsilon = 5e-4;  // Jordan's value, which keeps noise small
static_assert(Whitening::kChannels == 2 * 3 * kWhiteningSide * kWhiteningSide);

}  // namespace

at::Tensor Conv::operator()(const at::Tensor& x) const {
  return at::conv2d(x, weight.to(x.scalar_type()), {}, stride, padding);
}

at::Tensor Whitening::operator()(const at::Tensor& x) const {
  const int64_t padding = x.size(2) < kPaddedBelow ? 1 : 0;
  return at::conv2d(x, weight.to(x.scalar_type()), {}, 1, padding);
}

void Whitening::find(const at::Tensor& images) {
  if (weight.any().item<bool>()) return;
  const at::Tensor patches = images.detach()
                                 .to(at::kFloat)
                                 .unfold(2, kWhiteningSide, 1)
                                 .unfold(3, kWhiteningSide, 1)
                                 .permute({0, 2, 3, 1, 4, 5})
                                 .reshape({-1, 3 * kWhiteningSide * kWhiteningSide});
  const at::Tensor covariance = patches.t().matmul(patches) / patches.size(0);
  const auto [variances, components] = at::linalg_eigh(covariance);
  const at::Tensor scales = (variances + kWhiteningEpsilon).rsqrt();
  const at::Tensor filters = components.t() * scales.unsqueeze(1);
  weight.copy_(at::cat({filters, -filters}).reshape(weight.sizes()));
}

at::Tensor BatchNorm::operator()(const at::Tensor& x, bool training) const {
  if (training) at::Tensor(count).add_(1);
  return at::batch_norm(x, weight, bias, mean, var, training, kBatchNormMomentum, kBatchNormEpsilon,
                        /*cudnn_enabled=*/false);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return at::linear(x.to(at::kFloat), weight, bias);
}

void Conv::add_work(BlockWork* work) const {
  const int64_t side = (work->out.side + 2 * padding - weight.size(2)) / stride + 1;
  work->out = {weight.size(0), side};
  work->multiplications += static_cast<double>(weight.numel() * side * side);
}

void Whitening::add_work(BlockWork* work) const {
  const int64_t padding = work->out.side < kPaddedBelow ? 1 : 0;
  Conv{weight, 1, padding}.add_work(work);
}

void Linear::add_work(BlockWork* work) const {
  work->out = {weight.size(0), 0};
  work->multiplications += static_cast<double>(weight.numel());
}

LayerMaker::LayerMaker(Model& model, uint64_t seed)
    : model_(model), random_(at::detail::createCPUGenerator(seed)) {}

// Draws weights by the rule of He et al. 2015 for the fan out, like torchvision's ResNet.
Conv LayerMaker::conv(const std::string& name, int64_t in, int64_t out, int64_t kernel,
                      int64_t stride) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(out * kernel * kernel));
  at::Tensor weight = at::empty({out, in, kernel, kernel}).normal_(0, deviation, random_);
  weight = weight.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  model_.decayed_.push_back({name + ".weight", weight});
  return {weight, stride, kernel / 2};
}

Conv LayerMaker::identity_conv(const std::string& name, int64_t in, int64_t out, int64_t kernel) {
  Conv made = conv(name, in, out, kernel);
  // The other channels are drawn as in torch.nn: uniformly within 1 / sqrt(inputs).
  at::Tensor weight = made.weight.detach();
  const double bound = 1.0 / std::sqrt(static_cast<double>(in * kernel * kernel));
  weight.uniform_(-bound, bound, random_);
  for (int64_t i = 0; i < std::min(in, out); ++i) {
    weight[i].zero_();
    weight[i][i][kernel / 2][kernel / 2].fill_(1);
  }
  return made;
}

Whitening LayerMaker::whitening(const std::string& name) {
  const at::Tensor weight = at::zeros({Whitening::kChannels, 3, kWhiteningSide, kWhiteningSide});
  model_.buffers_.push_back({name + ".weight", weight});
  return {weight};
}

BatchNorm LayerMaker::batch_norm(const std::string& name, int64_t channels) {
  BatchNorm norm{at::ones(channels).requires_grad_(), at::zeros(channels).requires_grad_(),
                 at::zeros(channels), at::ones(channels), at::zeros({}, at::kLong)};
  model_.undecayed_.push_back({name + ".weight", norm.weight});
  model_.undecayed_.push_back({name + ".bias", norm.bias});
  model_.buffers_.push_back({name + ".running_mean", norm.mean});
  model_.buffers_.push_back({name + ".running_var", norm.var});
  model_.buffers_.push_back({name + ".num_batches_tracked", norm.count});
  return norm;
}

// Draws weights like torch.nn.Linear: uniformly within 1 / sqrt(in).
Linear LayerMaker::linear(const std::string& name, int64_t in, int64_t out, bool bias) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  Linear layer;
  layer.weight = at::empty({out, in}).uniform_(-bound, bound, random_).requires_grad_();
  model_.decayed_.push_back({name + ".weight", layer.weight});
  if (bias) {
    layer.bias = at::empty(out).uniform_(-bound, bound, random_).requires_grad_();
    model_.undecayed_.push_back({name + ".bias", layer.bias});
  }
  return layer;
}

void LayerMaker::add(std::unique_ptr<Block> block) {
  model_.blocks_.push_back(
      {std::move(block),
       {model_.decayed_.size(), model_.undecayed_.size(), model_.buffers_.size()}});
}

}  // namespace forebay::train
