#include "train/model/precision.h"

#include <fmt/format.h>

namespace forebay::train {

bool has_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

base::Result<ResolvedPrecision> resolve_precision(const std::string& option,
                                                  const c10::Device& device) {
  const char* const name = device.is_cpu() ? "this processor" : "the GPU";
  const bool bf16 = !device.is_cpu() || has_bf16();
  if (option == "auto" && bf16)
    return ResolvedPrecision{Precision::kBf16, fmt::format("bf16: {} supports it", name)};
  if (option == "auto")
    return ResolvedPrecision{Precision::kFp32, fmt::format("fp32: {} does not support bf16", name)};
  if (option == "fp32" && bf16) {
    return ResolvedPrecision{Precision::kFp32,
                             fmt::format("fp32, as asked; bf16 would be faster on {}", name)};
  }
  if (option == "fp32") return ResolvedPrecision{Precision::kFp32, "fp32, as asked"};
  if (option != "bf16") {
    return base::fail(base::Code::kInvalid, "--precision {}: use auto, bf16 or fp32", option);
  }
  return ResolvedPrecision{
      Precision::kBf16,
      bf16 ? "bf16, as asked" : "bf16, as asked; this processor emulates it, which is slow"};
}

}  // namespace forebay::train
