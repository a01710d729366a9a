// A GPU, as far as preparing samples needs one: memory, and streams that the kernels of
// kernels_gpu.h run in. The host can stand in for it, which shows without a GPU what one would
// make.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "image/kernels_gpu.h"

namespace forebay::image::gpu {

// A stream of its own, and memory for what runs in it. One thread at a time.
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
  // Runs come behind what this stream of the caller's does, a cudaStream_t, and what it does later
  // behind them; nullptr is CUDA's default stream. Without a call nothing but the queue waits for
  // them. Not while anything runs.
  virtual void use_stream(void* stream) = 0;

  // Regions that may be run until wait() is called.
  static constexpr size_t kRegionsMax = 16384;
  // A job in that memory. Sends its part of what is at `host` and runs all kernels, behind what
  // was begun before, and comes back at once. Errors: kIo.
  virtual base::Status run(const Run& run) = 0;
  // Whether wait() would come back at once.
  virtual bool is_done() = 0;
  // Until all runs are done. `bad`: gets Job::bad of each since the last call, one after the other.
  virtual base::Status wait(uint32_t* bad) = 0;
  // In the GPU's memory, at once: zeros, and copies from and to the host's.
  virtual base::Status clear(uint8_t* out, size_t bytes) = 0;
  virtual base::Status send(base::Bytes from, uint8_t* to) = 0;
  virtual base::Status fetch(const uint8_t* from, std::span<uint8_t> to) = 0;
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
