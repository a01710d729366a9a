// The image classifiers that forebay-train can train. A model is a list of named tensors and a
// function over them; nothing here knows about data, optimisers or files.
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

// One thread at a time may use a model. Weights are float32, convolutions' in channels-last layout.
class Model {
 public:
  virtual ~Model() = default;

  // Turns images [samples, 3, size, size] in float32 or bfloat16 into float32 logits [samples,
  // classes], computed in the type of the images. With `training`, batch norms use the batch's own
  // statistics and add them to the running ones.
  virtual at::Tensor forward(const at::Tensor& images, bool training) = 0;

  // The smallest image side that forward() takes.
  virtual int64_t size_min() const = 0;

  // What is learned: the weights of convolutions and linear layers, which decay, and the rest.
  const std::vector<Named>& decayed() const { return decayed_; }
  const std::vector<Named>& undecayed() const { return undecayed_; }
  // What is counted instead of learned: running statistics.
  const std::vector<Named>& buffers() const { return buffers_; }
  // All of these tensors: the state_dict.
  std::vector<Named> state() const;

  // Moves all of them to a device. forward() takes images that are there, too.
  void to(const c10::Device& device);
  c10::Device device() const { return decayed_.front().tensor.device(); }

 protected:
  friend class LayerMaker;
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
