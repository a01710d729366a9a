// What preparing samples needs of a GPU: memory, and queues that run the kernels of kernels_gpu.h.
// device_cuda_gpu.cc uses a GPU; device_host_gpu.cc uses the host instead, which gives the same
// samples.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "image/gpu/kernels_gpu.h"

namespace forebay::image::gpu {

// A stream of its own, and memory for the work in it. Used by one thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;

  struct Memory {
    uint8_t* host = nullptr;  // host memory that run() sends from
    uint8_t* sent = nullptr;  // GPU memory that run() sends to
    uint8_t* work = nullptr;
  };
  // Returns memory of at least these sizes, in bytes, that begins at multiples of 256. It stays
  // valid until the next call, which keeps the content of `host`. Must not be called while anything
  // runs. Errors: kNoMemory, kIo.
  virtual base::Result<Memory> reserve(size_t sent, size_t work) = 0;
  // Orders the next runs after an event of the caller, a cudaEvent_t.
  virtual base::Status begin_after(void* event) = 0;
  // Orders the later work of a stream of the caller, a cudaStream_t, after the runs so far; nullptr
  // is CUDA's default stream.
  virtual base::Status order_before(void* stream) = 0;

  // The number of regions that may run before wait() is called.
  static constexpr size_t kRegionSlots = 16384;
  // Sends the part of `host` that belongs to the job and runs all kernels, after everything that
  // was begun before. Returns at once. Errors: kIo.
  virtual base::Status run(const KernelArguments& arguments) = 0;
  // Whether wait() would return at once.
  virtual bool is_done() = 0;
  // Waits until all runs are done. `bad` receives RoundArrays::bad of each run since the last call,
  // one after the other.
  virtual base::Status wait(uint32_t* bad) = 0;
  // These write zeros to the GPU's memory, or copy host memory to it or from it, and wait for the
  // result.
  virtual base::Status clear(uint8_t* out, size_t bytes) = 0;
  virtual base::Status send(base::Bytes from, uint8_t* to) = 0;
  virtual base::Status fetch(const uint8_t* from, std::span<uint8_t> to) = 0;
};

// Any thread may call any function.
class Device {
 public:
  virtual ~Device() = default;
  // The device number of CUDA, or -1 for the host.
  virtual int number() const = 0;
  // Errors: kNoMemory, kIo.
  virtual base::Result<std::unique_ptr<Queue>> open_queue() = 0;
  virtual base::Result<std::shared_ptr<uint8_t>> allocate(size_t bytes) = 0;
};

// Errors: kUnsupported (built without CUDA), kNotFound (there is no such device), kIo (no driver,
// or one that is too old, or the device is lost).
base::Result<std::shared_ptr<Device>> open_device(int number);
// Returns the host in place of a GPU.
std::shared_ptr<Device> host_device();

}  // namespace forebay::image::gpu
