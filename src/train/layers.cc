#include "train/layers.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace forebay::train {

namespace {

constexpr double kBatchNormMomentum = 0.1;
constexpr double kBatchNormEpsilon = 1e-5;

}  // namespace

at::Tensor Conv::operator()(const at::Tensor& x) const {
  return at::conv2d(x, weight.to(x.scalar_type()), {}, stride, padding);
}

at::Tensor BatchNorm::operator()(const at::Tensor& x, bool training) const {
  if (training) at::Tensor(count).add_(1);
  return at::batch_norm(x, weight, bias, mean, var, training, kBatchNormMomentum, kBatchNormEpsilon,
                        /*cudnn_enabled=*/false);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return at::linear(x.to(at::kFloat), weight, bias);
}

LayerMaker::LayerMaker(Model& model, uint64_t seed)
    : model_(model), random_(at::detail::createCPUGenerator(seed)) {}

// He et al. 2015, fan out, as torchvision's ResNet.
Conv LayerMaker::conv(const std::string& name, int64_t in, int64_t out, int64_t kernel,
                      int64_t stride) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(out * kernel * kernel));
  at::Tensor weight = at::empty({out, in, kernel, kernel}).normal_(0, deviation, random_);
  weight = weight.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  model_.decayed_.push_back({name + ".weight", weight});
  return {weight, stride, kernel / 2};
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

// torch.nn.Linear's own: uniform within 1 / sqrt(in).
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

}  // namespace forebay::train
