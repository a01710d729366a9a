// Where a model computes: on the processor, or on a GPU.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "base/status.h"

namespace forebay::train {

// Chooses by `option`: "cpu"; "cuda", the first GPU that the process sees; or "auto", a GPU if
// there is one. Errors: kInvalid for anything else; kUnavailable for "cuda" if PyTorch has no CUDA
// or finds no GPU.
base::Result<c10::Device> choose_device(const std::string& option);

}  // namespace forebay::train
