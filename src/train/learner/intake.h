// Turns batches into tensors on the model's device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

#include "feed/batch/batch.h"
#include "train/model/precision.h"

namespace forebay::train {

constexpr int64_t kNoLabel = -1;

// A batch on the model's device.
struct Samples {
  at::Tensor images;      // [samples, 3, size, size], float32 or bfloat16
  at::Tensor labels;      // [samples], int64; kNoLabel for a sample that is not learned from
  uint64_t labelled = 0;  // the number of samples that have a label
  uint64_t epoch = 0;     // of the batch
  uint64_t step = 0;      // of the batch
};

// Returns the batch's images as a tensor [samples, 3, size, size] over the same memory. The tensor
// keeps the batch alive. The feed's layout must be NHWC and its type float32 or bfloat16.
at::Tensor wrap_images(const std::shared_ptr<const feed::Batch>& batch, Precision precision);

// One thread at a time may use it.
class Intake {
 public:
  Intake(const c10::Device& device, Precision precision);

  // On the processor the images are not copied. To a GPU they are copied while it computes: work
  // that is given to the device's current stream after this call waits for the copy, and the batch
  // is not needed any more.
  Samples take(const std::shared_ptr<const feed::Batch>& batch) const;

 private:
  void send(Samples* samples) const;

  c10::Device device_;
  Precision precision_;
  std::optional<c10::Stream> beside_;  // the stream of the copies; none on the processor
};

}  // namespace forebay::train
