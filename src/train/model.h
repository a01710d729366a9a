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
  uint64_t seed = 0;  // of the first weights
};

// One thread at a time. Weights are float32, convolutions' in channels-last layout.
class Model {
 public:
  virtual ~Model() = default;

  // [samples, 3, size, size], float32 or bfloat16, to float32 logits [samples, classes]. The
  // input's type is the one that is computed in. `training`: batch statistics, which are also
  // added to the running ones.
  virtual at::Tensor forward(const at::Tensor& images, bool training) = 0;

  // The smallest image side that forward() takes.
  virtual int64_t size_min() const = 0;

  // What is learned: weights that decay (of convolutions and linear layers), and the rest.
  const std::vector<Named>& decayed() const { return decayed_; }
  const std::vector<Named>& undecayed() const { return undecayed_; }
  // What is counted: running statistics.
  const std::vector<Named>& buffers() const { return buffers_; }
  // All of them: the state_dict.
  std::vector<Named> state() const;

 protected:
  friend class LayerMaker;
  std::vector<Named> decayed_;
  std::vector<Named> undecayed_;
  std::vector<Named> buffers_;
};

// One for each file resnet*.cc; make_model() chooses and checks.
std::unique_ptr<Model> make_resnet9(const ModelOptions& options);
std::unique_ptr<Model> make_resnet18(const ModelOptions& options);

// kInvalid for a name or width that is none.
Result<std::unique_ptr<Model>> make_model(const ModelOptions& options);

}  // namespace forebay::train
