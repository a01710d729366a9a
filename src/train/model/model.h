// The image classifiers that forebay-train can train. A model is an ordered list of blocks, each a
// function with named tensors. Nothing here knows about data, optimisers or files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::train {

using base::Result;
using base::Status;

// A tensor with its name in PyTorch's state_dict.
struct Named {
  std::string name;
  at::Tensor tensor;
};

struct ModelOptions {
  std::string name = "resnet9";  // or "resnet18"
  int64_t width = 16;            // resnet9: half the channels of its first learned layer
  int64_t classes = 10;
  uint64_t seed = 0;  // of the initial weights
};

// The shape of one sample between two blocks: [channels, side, side], or [channels] if side is 0.
struct Activation {
  int64_t channels = 0;
  int64_t side = 0;

  int64_t numbers() const { return side == 0 ? channels : channels * side * side; }
  bool operator==(const Activation&) const = default;
};

// The work of one block on one sample in a forward pass.
struct BlockWork {
  std::string name;
  Activation out;              // the shape of the result
  double multiplications = 0;  // in convolutions and linear layers
  int64_t weights = 0;         // the number of learned numbers
};

// A part of a model that turns one tensor into another. A model can be cut between any two blocks.
class Block {
 public:
  explicit Block(std::string name) : name_(std::move(name)) {}
  virtual ~Block() = default;

  // Computes in the type of `x`, [samples, channels, side, side]. `training`: see Model::forward().
  virtual at::Tensor forward(const at::Tensor& x, bool training) = 0;
  // Adds the block's work on a sample of the shape work->out, and sets work->out to the shape of
  // the result.
  virtual void add_work(BlockWork* work) const = 0;
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

// One thread at a time may use a model. Weights are float32, convolutions' in channels-last layout.
class Model {
 public:
  // The smallest image side, in pixels, that forward() takes.
  static constexpr int64_t kSideLeast = 8;

  // Turns images [samples, 3, side, side] in float32 or bfloat16 into float32 logits [samples,
  // classes], computed in the type of the images. With `training`, batch norms use the batch's own
  // statistics and update the running statistics.
  at::Tensor forward(const at::Tensor& images, bool training);
  // Runs only blocks [first, end). `x` is the images, or the result of block first - 1. Consecutive
  // ranges together give the same bits as one forward().
  at::Tensor forward(const at::Tensor& x, bool training, size_t first, size_t end);

  size_t blocks() const { return blocks_.size(); }
  // The work of each block, in order, on an image with sides of `side` pixels.
  std::vector<BlockWork> work(int64_t side) const;

  // The learned tensors: weights of convolutions and linear layers, which decay, and the others.
  const std::vector<Named>& decayed() const { return decayed_; }
  const std::vector<Named>& undecayed() const { return undecayed_; }
  // Tensors that are computed from images instead of learned: the batch norms' running statistics
  // and whitening filters.
  const std::vector<Named>& buffers() const { return buffers_; }
  // All of these tensors: the state_dict. The second form returns the tensors of blocks
  // [first, end).
  std::vector<Named> state() const { return state(0, blocks_.size()); }
  std::vector<Named> state(size_t first, size_t end) const;

  // Moves all tensors to a device; forward() then takes images on that device.
  void to(const c10::Device& device);
  c10::Device device() const { return decayed_.front().tensor.device(); }

 private:
  friend class LayerMaker;
  // How many tensors of each list belong to the blocks up to and including this one.
  struct Ends {
    size_t decayed = 0;
    size_t undecayed = 0;
    size_t buffers = 0;
  };
  struct Entry {
    std::unique_ptr<Block> block;
    Ends ends;
  };
  Ends ends_before(size_t block) const { return block == 0 ? Ends{} : blocks_[block - 1].ends; }

  std::vector<Entry> blocks_;
  std::vector<Named> decayed_;
  std::vector<Named> undecayed_;
  std::vector<Named> buffers_;
};

// Defined in resnet9.cc and resnet18.cc; make_model() checks the options and calls one of them.
std::unique_ptr<Model> make_resnet9(const ModelOptions& options);
std::unique_ptr<Model> make_resnet18(const ModelOptions& options);

// Makes the model that options.name says. Errors: kInvalid for an unknown name, a width out of
// range or no classes; kTooBig for too many classes.
Result<std::unique_ptr<Model>> make_model(const ModelOptions& options);

}  // namespace forebay::train
