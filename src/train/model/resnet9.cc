// The small residual network of David Page's "How to train your ResNet" (DAWNBench, 2018), for
// images of about 32 pixels. Odd on purpose: pooling comes before the batch norm, which makes norm
// and ReLU four times cheaper; the first layer whitens and is not learned.
#include <ATen/ATen.h>

#include "train/model/layers.h"

namespace forebay::train {

namespace {

constexpr double kLogitScale = 0.125;

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
  Whitening whiten_;
  Block grow1_, residual1a_, residual1b_;
  Block grow2_, grow3_, residual3a_, residual3b_;
  Linear linear_;
};

ResNet9::ResNet9(const ModelOptions& options) {
  LayerMaker make(*this, options.seed);
  const auto block = [&make](const std::string& name, int64_t in, int64_t out, bool pool) {
    return Block{make.identity_conv(name + ".conv", in, out, 3),
                 make.batch_norm(name + ".norm", out), pool};
  };
  const int64_t w = options.width;
  whiten_ = make.whitening("whiten");
  grow1_ = block("grow1", Whitening::kChannels, 2 * w, true);
  residual1a_ = block("residual1.a", 2 * w, 2 * w, false);
  residual1b_ = block("residual1.b", 2 * w, 2 * w, false);
  grow2_ = block("grow2", 2 * w, 4 * w, true);
  grow3_ = block("grow3", 4 * w, 8 * w, true);
  residual3a_ = block("residual3.a", 8 * w, 8 * w, false);
  residual3b_ = block("residual3.b", 8 * w, 8 * w, false);
  linear_ = make.linear("linear", 8 * w, options.classes, false);
}

at::Tensor ResNet9::Block::operator()(const at::Tensor& x, bool training) const {
  at::Tensor y = conv(x);
  if (pool) y = at::max_pool2d(y, 2);
  return norm(y, training).relu_();
}

at::Tensor ResNet9::forward(const at::Tensor& images, bool training) {
  if (training) whiten_.find(images);
  at::Tensor x = grow1_(whiten_(images).relu_(), training);
  x = x + residual1b_(residual1a_(x, training), training);
  x = grow2_(x, training);
  x = grow3_(x, training);
  x = x + residual3b_(residual3a_(x, training), training);
  x = at::max_pool2d(x, {x.size(2), x.size(3)}).flatten(1);
  return linear_(x) * kLogitScale;
}

}  // namespace

std::unique_ptr<Model> make_resnet9(const ModelOptions& options) {
  return std::make_unique<ResNet9>(options);
}

}  // namespace forebay::train
