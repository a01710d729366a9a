// A learner's numbers as flat lists, which processes and learners exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace forebay::train {

// Both tensors are float32 [numbers], contiguous and on the model's device; they share the memory
// of the model's parameters and their gradients.
struct FlatNumbers {
  at::Tensor weights;
  at::Tensor gradient;
  std::vector<uint64_t> sizes;  // the numbers of each parameter, in the order of the lists
};

}  // namespace forebay::train
