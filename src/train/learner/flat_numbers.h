// A learner's weights and gradients as two flat tensors, which processes and learners exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forebay::train {

// Both tensors are float32 [numbers], contiguous and on the model's device. They share memory with
// the model's parameters and with the parameters' gradients.
struct FlatNumbers {
  at::Tensor weights;
  at::Tensor gradient;
  std::vector<uint64_t> sizes;       // how many numbers each parameter has, in the tensors' order
  std::vector<at::Tensor> momentum;  // the optimiser's own tensors, float32 and contiguous
};

}  // namespace forebay::train
