// The small residual network of David Page's "How to train your ResNet" (DAWNBench, 2018), for
// images of about 32 pixels. Odd on purpose: pooling comes before the batch norm, which makes norm
// and ReLU four times cheaper; the first layer whitens the image and is not learned.
#include <ATen/ATen.h>

#include "train/model/layers.h"

namespace forebay::train {

namespace {

constexpr double kLogitScale = 0.125;

struct ConvUnit {
  Conv conv;
  BatchNorm norm;
  bool pool = false;

  at::Tensor operator()(const at::Tensor& x, bool training) const {
    at::Tensor y = conv(x);
    if (pool) y = at::max_pool2d(y, 2);
    return norm(y, training).relu_();
  }
  void add_work(BlockWork* work) const {
    conv.add_work(work);
    if (pool) work->out.side /= 2;
  }
};

class Stem final : public Block {
 public:
  Stem(Whitening whiten, ConvUnit grow)
      : Block("stem"), whiten_(std::move(whiten)), grow_(std::move(grow)) {}
  at::Tensor forward(const at::Tensor& x, bool training) override {
    if (training) whiten_.find(x);
    return grow_(whiten_(x).relu_(), training);
  }
  void add_work(BlockWork* work) const override {
    whiten_.add_work(work);
    grow_.add_work(work);
  }

 private:
  Whitening whiten_;
  ConvUnit grow_;
};

class Grow final : public Block {
 public:
  Grow(const std::string& name, ConvUnit unit) : Block(name), unit_(std::move(unit)) {}
  at::Tensor forward(const at::Tensor& x, bool training) override { return unit_(x, training); }
  void add_work(BlockWork* work) const override { unit_.add_work(work); }

 private:
  ConvUnit unit_;
};

class Residual final : public Block {
 public:
  Residual(const std::string& name, ConvUnit a, ConvUnit b)
      : Block(name), a_(std::move(a)), b_(std::move(b)) {}
  at::Tensor forward(const at::Tensor& x, bool training) override {
    return x + b_(a_(x, training), training);
  }
  void add_work(BlockWork* work) const override {
    a_.add_work(work);
    b_.add_work(work);
  }

 private:
  ConvUnit a_;
  ConvUnit b_;
};

class Head final : public Block {
 public:
  explicit Head(Linear linear) : Block("head"), linear_(std::move(linear)) {}
  at::Tensor forward(const at::Tensor& x, bool /*training*/) override {
    return linear_(at::max_pool2d(x, {x.size(2), x.size(3)}).flatten(1)) * kLogitScale;
  }
  void add_work(BlockWork* work) const override { linear_.add_work(work); }

 private:
  Linear linear_;
};

}  // namespace

std::unique_ptr<Model> make_resnet9(const ModelOptions& options) {
  auto model = std::make_unique<Model>();
  LayerMaker make(*model, options.seed);
  const auto unit = [&make](const std::string& name, int64_t in, int64_t out, bool pool) {
    return ConvUnit{make.identity_conv(name + ".conv", in, out, 3),
                    make.batch_norm(name + ".norm", out), pool};
  };
  // The weights are drawn in this order, so each layer is made in a statement of its own.
  const auto residual = [&](const std::string& name, int64_t channels) {
    ConvUnit a = unit(name + ".a", channels, channels, false);
    ConvUnit b = unit(name + ".b", channels, channels, false);
    make.add(std::make_unique<Residual>(name, std::move(a), std::move(b)));
  };
  const int64_t w = options.width;
  Whitening whiten = make.whitening("whiten");
  ConvUnit grow1 = unit("grow1", Whitening::kChannels, 2 * w, true);
  make.add(std::make_unique<Stem>(std::move(whiten), std::move(grow1)));
  residual("residual1", 2 * w);
  make.add(std::make_unique<Grow>("grow2", unit("grow2", 2 * w, 4 * w, true)));
  make.add(std::make_unique<Grow>("grow3", unit("grow3", 4 * w, 8 * w, true)));
  residual("residual3", 8 * w);
  make.add(std::make_unique<Head>(make.linear("linear", 8 * w, options.classes, false)));
  return model;
}

}  // namespace forebay::train
