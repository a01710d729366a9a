// Finds one of a model's tensors by its name in the state_dict.
#pragma once

#include <gtest/gtest.h>

#include "train/model/model.h"

namespace forebay::train {

inline at::Tensor find(const Model& model, const std::string& name) {
  for (const Named& named : model.state()) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

}  // namespace forebay::train
