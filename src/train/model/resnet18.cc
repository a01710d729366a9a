// torchvision's resnet18 (He et al., "Deep Residual Learning", 2015), with the same names, shapes
// and initial weights, so that each library can load weights that the other one saved.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>

#include "train/model/layers.h"

namespace forebay::train {

namespace {

class Stem final : public Block {
 public:
  Stem(Conv conv, BatchNorm norm) : Block("stem"), conv_(std::move(conv)), norm_(std::move(norm)) {}
  at::Tensor forward(const at::Tensor& x, bool training) override {
    return at::max_pool2d(norm_(conv_(x), training).relu_(), 3, 2, 1);
  }
  void add_work(BlockWork* work) const override {
    conv_.add_work(work);
    work->out.side = (work->out.side - 1) / 2 + 1;
  }

 private:
  Conv conv_;
  BatchNorm norm_;
};

class Residual final : public Block {
 public:
  struct Shortcut {
    Conv conv;
    BatchNorm norm;
  };
  struct Layers {
    Conv conv1;
    BatchNorm norm1;
    Conv conv2;
    BatchNorm norm2;
    std::optional<Shortcut> downsample;
  };
  Residual(const std::string& name, Layers layers) : Block(name), layers_(std::move(layers)) {}
  at::Tensor forward(const at::Tensor& x, bool training) override {
    const auto& [conv1, norm1, conv2, norm2, downsample] = layers_;
    at::Tensor y = norm1(conv1(x), training).relu_();
    y = norm2(conv2(y), training);
    return (y + (downsample ? downsample->norm(downsample->conv(x), training) : x)).relu_();
  }
  void add_work(BlockWork* work) const override {
    BlockWork shortcut{.name = {}, .out = work->out};
    layers_.conv1.add_work(work);
    layers_.conv2.add_work(work);
    if (!layers_.downsample) return;
    layers_.downsample->conv.add_work(&shortcut);
    work->multiplications += shortcut.multiplications;
  }

 private:
  Layers layers_;
};

class Head final : public Block {
 public:
  explicit Head(Linear linear) : Block("head"), linear_(std::move(linear)) {}
  at::Tensor forward(const at::Tensor& x, bool /*training*/) override {
    return linear_(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  void add_work(BlockWork* work) const override { linear_.add_work(work); }

 private:
  Linear linear_;
};

void add_residual(LayerMaker& make, const std::string& name, int64_t in, int64_t out,
                  int64_t stride) {
  Residual::Layers layers;
  layers.conv1 = make.conv(name + ".conv1", in, out, 3, stride);
  layers.norm1 = make.batch_norm(name + ".bn1", out);
  layers.conv2 = make.conv(name + ".conv2", out, out, 3);
  layers.norm2 = make.batch_norm(name + ".bn2", out);
  if (stride != 1 || in != out) {
    layers.downsample = Residual::Shortcut{make.conv(name + ".downsample.0", in, out, 1, stride),
                                           make.batch_norm(name + ".downsample.1", out)};
  }
  make.add(std::make_unique<Residual>(name, std::move(layers)));
}

}  // namespace

std::unique_ptr<Model> make_resnet18(const ModelOptions& options) {
  auto model = std::make_unique<Model>();
  LayerMaker make(*model, options.seed);
  Conv conv = make.conv("conv1", 3, 64, 7, 2);
  BatchNorm norm = make.batch_norm("bn1", 64);
  make.add(std::make_unique<Stem>(std::move(conv), std::move(norm)));
  int64_t in = 64;
  for (int64_t layer = 1; layer <= 4; ++layer) {
    const int64_t out = int64_t{64} << (layer - 1);
    add_residual(make, fmt::format("layer{}.0", layer), in, out, layer == 1 ? 1 : 2);
    add_residual(make, fmt::format("layer{}.1", layer), out, out, 1);
    in = out;
  }
  make.add(std::make_unique<Head>(make.linear("fc", in, options.classes, true)));
  return model;
}

}  // namespace forebay::train
