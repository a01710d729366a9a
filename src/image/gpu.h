// A GPU, as far as preparing samples needs one: memory, and streams that the kernels of
// kernels_gpu.h run in. The host can stand in for it, which shows without a GPU what one would
// make.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "image/kernels_gpu.h"

namespace forebay::image::gpu {

// A stream. One thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;

  struct Memory {
    uint8_t* host = nullptr;  // to be sent from; the host's
    uint8_t* sent = nullptr;  // where run() sends it
    uint8_t* work = nullptr;
  };
  // Memory of at least these sizes, in bytes, that begins at multiples of 256; good until the next
  // call, which keeps what is at `host`. Not while anything runs. Errors: kNoMemory, kIo.
  virtual base::Result<Memory> reserve(size_t sent, size_t work) = 0;

  // A job in that memory. Sends what is at `host` and runs all kernels, and comes back at once.
  // Errors: kIo.
  virtual base::Status run(const Run& run) = 0;
  // Until that is done. `bad`: gets Job::bad.
  virtual base::Status wait(uint32_t* bad) = 0;
  // Copies from the host's memory to the GPU's, at once.
  virtual base::Status copy(base::Bytes from, uint8_t* to) = 0;
};

// Any thread may call anything.
class Device {
 public:
  virtual ~Device() = default;
  // By CUDA's count; -1: the host.
  virtual int number() const = 0;
  // Errors: kNoMemory, kIo.
  virtual base::Result<std::unique_ptr<Queue>> open_queue() = 0;
  virtual base::Result<std::shared_ptr<uint8_t>> allocate(size_t bytes) = 0;
};

// Errors: kUnsupported (built without CUDA), kNotFound (there is no such device), kIo (no driver,
// or one that is too old, or the device is lost).
base::Result<std::shared_ptr<Device>> open_device(int number);
// The host, in place of a GPU.
std::shared_ptr<Device> host_device();

}  // namespace forebay::image::gpu
