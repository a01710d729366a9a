// A learner's numbers as flat lists, which is how processes and learners exchange them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace forebay::train {

// A learner's numbers in flat memory, which stays where it is.
struct FlatNumbers {
  std::span<float> weights;
  std::span<float> gradient;
  std::vector<uint64_t> sizes;   // of the tensors that follow each other
  std::shared_ptr<void> memory;  // keeps both
};

}  // namespace forebay::train
