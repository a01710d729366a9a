// The image classifiers that forebay-train can train. A model is an ordered list of blocks, each a
// function over named tensors; nothing here knows about data, optimisers or files.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::train {

using base::Result;
using base::Status;

// A tensor by the name that PyTorch's state_dict gives it.
struct Named {
  std::string name;
  at::Tensor tensor;
};

struct ModelOptions {
  std::string name = "resnet9";  // or "resnet18"
  int64_t width = 16;            // resnet9: half the channels of its first learned layer
  int64_t classes = 10;
  uint64_t seed = 0;  // the seed that the first weights are drawn with
};

// The shape of one sample between two blocks: [channels, side, side], or [channels] if side is 0.
struct Activation {
  int64_t channels = 0;
  int64_t side = 0;

  int64_t numbers() const { return side == 0 ? channels : channels * side * side; }
  bool operator==(const Activation&) const = default;
};

// What one block does to one sample in a forward pass.
struct BlockWork {
  std::string name;
  Activation out;              // the shape of the result
  double multiplications = 0;  // in convolutions and linear layers
  int64_t weights = 0;         // the number of learned numbers
};

// A part of a model that takes one tensor and gives one. A model can be cut between any two blocks.
class Block {
 public:
  explicit Block(std::string name) : name_(std::move(name)) {}
  virtual ~Block() = default;

  // Computes in the type of `x`, [samples, channels, side, side]. `training` is Model::forward()'s.
  virtual at::Tensor forward(const at::Tensor& x, bool training) = 0;
  // Adds the block's work on a sample of the shape work->out, and replaces that by the result's.
  virtual void add_work(BlockWork* work) const = 0;
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

// One thread at a time may use a model. Weights are float32, convolutions' in channels-last layout.
class Model {
 public:
  // The smallest image side that forward() takes.
  static constexpr int64_t kSideLeast = 8;

  // Turns images [samples, 3, side, side] in float32 or bfloat16 into float32 logits [samples,
  // classes], computed in the type of the images. With `training`, batch norms use the batch's own
  // statistics and add them to the running ones.
  at::Tensor forward(const at::Tensor& images, bool training);
  // The same for blocks [first, end) alone: `x` is the input of the first one, or what the block
  // before it gave. The results of consecutive ranges are those of forward(), bit for bit.
  at::Tensor forward(const at::Tensor& x, bool training, size_t first, size_t end);

  size_t blocks() const { return blocks_.size(); }
  // What each block does to an image of this side, in order.
  std::vector<BlockWork> work(int64_t side) const;

  // What is learned: the weights of convolutions and linear layers, which decay, and the rest.
  const std::vector<Named>& decayed() const { return decayed_; }
  const std::vector<Named>& undecayed() const { return undecayed_; }
  // What is counted instead of learned: running statistics.
  const std::vector<Named>& buffers() const { return buffers_; }
  // All of these tensors: the state_dict. The second form gives those of blocks [first, end).
  std::vector<Named> state() const { return state(0, blocks_.size()); }
  std::vector<Named> state(size_t first, size_t end) const;

  // Moves all tensors to a device. forward() takes images on the same device.
  void to(const c10::Device& device);
  c10::Device device() const { return decayed_.front().tensor.device(); }

 private:
  friend class LayerMaker;
  // How many tensors of each list belong to the blocks up to this one.
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

// Each file resnet*.cc defines one of these; make_model() checks the options and chooses.
std::unique_ptr<Model> make_resnet9(const ModelOptions& options);
std::unique_ptr<Model> make_resnet18(const ModelOptions& options);

// Errors: kInvalid for an unknown name, a width out of range or no classes; kTooBig for too many.
Result<std::unique_ptr<Model>> make_model(const ModelOptions& options);

}  // namespace forebay::train
