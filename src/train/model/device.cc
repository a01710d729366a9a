#include "train/model/device.h"

#include <ATen/Context.h>

namespace forebay::train {

using base::Code;
using base::fail;

base::Result<c10::Device> choose_device(const std::string& option) {
  if (option == "cpu") return c10::Device(at::kCPU);
  if (option != "auto" && option != "cuda") {
    return fail(Code::kInvalid, "--device {}: use auto, cpu or cuda", option);
  }
  if (at::hasCUDA()) return c10::Device(at::kCUDA, 0);
  if (option == "auto") return c10::Device(at::kCPU);
  return fail(Code::kUnavailable,
              "--device cuda: the installed PyTorch has no CUDA, or finds no GPU");
}

}  // namespace forebay::train
