// torchvision's resnet18 (He et al., "Deep Residual Learning", 2015): its names, shapes and first
// weights, so that each library can load weights that the other one saved.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>

#include "train/model/layers.h"

namespace forebay::train {

namespace {

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

ResNet18::ResNet18(const ModelOptions& options) {
  LayerMaker make(*this, options.seed);
  conv1_ = make.conv("conv1", 3, 64, 7, 2);
  norm1_ = make.batch_norm("bn1", 64);
  int64_t in = 64;
  for (int64_t layer = 1; layer <= 4; ++layer) {
    const int64_t out = int64_t{64} << (layer - 1);
    const int64_t stride = layer == 1 ? 1 : 2;
    blocks_.push_back(make_block(make, fmt::format("layer{}.0", layer), in, out, stride));
    blocks_.push_back(make_block(make, fmt::format("layer{}.1", layer), out, out, 1));
    in = out;
  }
  linear_ = make.linear("fc", in, options.classes, true);
}

ResNet18::Block ResNet18::make_block(LayerMaker& make, const std::string& name, int64_t in,
                                     int64_t out, int64_t stride) {
  Block block;
  block.conv1 = make.conv(name + ".conv1", in, out, 3, stride);
  block.norm1 = make.batch_norm(name + ".bn1", out);
  block.conv2 = make.conv(name + ".conv2", out, out, 3);
  block.norm2 = make.batch_norm(name + ".bn2", out);
  if (stride != 1 || in != out) {
    block.downsample = Shortcut{make.conv(name + ".downsample.0", in, out, 1, stride),
                                make.batch_norm(name + ".downsample.1", out)};
  }
  return block;
}

at::Tensor ResNet18::Block::operator()(const at::Tensor& x, bool training) const {
  at::Tensor y = norm1(conv1(x), training).relu_();
  y = norm2(conv2(y), training);
  return (y + (downsample ? downsample->norm(downsample->conv(x), training) : x)).relu_();
}

at::Tensor ResNet18::forward(const at::Tensor& images, bool training) {
  at::Tensor x = norm1_(conv1_(images), training).relu_();
  x = at::max_pool2d(x, 3, 2, 1);
  for (const Block& block : blocks_) x = block(x, training);
  return linear_(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

}  // namespace

std::unique_ptr<Model> make_resnet18(const ModelOptions& options) {
  return std::make_unique<ResNet18>(options);
}

}  // namespace forebay::train
