#include "train/model/device.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "train/model/precision.h"

namespace forebay::train {
namespace {

using base::Code;

TEST(Device, IsChosenByName) {
  EXPECT_TRUE(choose_device("cpu")->is_cpu());
  EXPECT_EQ(choose_device("auto")->is_cuda(), at::hasCUDA());
  EXPECT_EQ(choose_device("tpu").error().code(), Code::kInvalid);
  EXPECT_EQ(choose_device("").error().code(), Code::kInvalid);
  const auto cuda = choose_device("cuda");
  ASSERT_EQ(cuda.has_value(), at::hasCUDA());
  if (!cuda) {
    EXPECT_EQ(cuda.error().code(), Code::kUnavailable);
  }
}

TEST(Device, DecidesOnTheNumberType) {
  const c10::Device cpu(at::kCPU);
  const c10::Device gpu(at::kCUDA, 0);
  EXPECT_EQ(resolve_precision("auto", cpu)->precision == Precision::kBf16, has_bf16());
  EXPECT_EQ(resolve_precision("auto", gpu)->precision, Precision::kBf16);
  for (const c10::Device& device : {cpu, gpu}) {
    EXPECT_EQ(resolve_precision("fp32", device)->precision, Precision::kFp32);
    EXPECT_EQ(resolve_precision("bf16", device)->precision, Precision::kBf16);
    EXPECT_EQ(resolve_precision("fp8", device).error().code(), Code::kInvalid);
  }
}

}  // namespace
}  // namespace forebay::train
