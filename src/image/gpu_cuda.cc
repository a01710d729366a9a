#include <cuda_runtime_api.h>

#include <cstring>

#include "image/gpu.h"
#include "image/launch_gpu.h"

namespace forebay::image::gpu {
namespace {

using base::Bytes;
using base::Code;
using base::fail;
using base::Result;
using base::Status;

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const bool memory = error == cudaErrorMemoryAllocation;
  return fail(memory ? Code::kNoMemory : Code::kIo, "GPU: cannot {}: {}", what,
              cudaGetErrorString(error));
}

// Memory of the current device, or page-locked memory of the host; one owner.
class Memory {
 public:
  explicit Memory(bool on_host) : on_host_(on_host) {}
  ~Memory() { release(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t size() const { return size_; }
  // What was there is lost, but for the first `kept` bytes of the host's.
  Status grow(size_t bytes, size_t kept = 0) {
    if (bytes <= size_) return {};
    void* larger = nullptr;
    if (kept == 0) release();
    RETURN_IF_ERROR(on_host_ ? check(cudaMallocHost(&larger, bytes), "allocate page-locked memory")
                             : check(cudaMalloc(&larger, bytes), "allocate memory"));
    if (kept > 0) std::memcpy(larger, data_, kept);
    release();
    data_ = larger;
    size_ = bytes;
    return {};
  }

 private:
  void release() {
    if (data_ != nullptr) on_host_ ? cudaFreeHost(data_) : cudaFree(data_);
    data_ = nullptr;
    size_ = 0;
  }

  const bool on_host_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(int device) : device_(device) {}
  ~CudaQueue() override {
    if (stream_ == nullptr) return;
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }

  Status open() {
    RETURN_IF_ERROR(enter());
    return check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }

  Result<Queue::Memory> reserve(size_t sent, size_t work) override {
    RETURN_IF_ERROR(enter());
    RETURN_IF_ERROR(host_.grow(sent, host_.size()));
    RETURN_IF_ERROR(sent_.grow(sent));
    RETURN_IF_ERROR(work_.grow(work));
    return Queue::Memory{host_.data(), sent_.data(), work_.data()};
  }

  Status run(const Run& run) override {
    RETURN_IF_ERROR(enter());
    const Job& job = run.job;
    bad_bytes_ = job.count * sizeof(uint32_t);
    RETURN_IF_ERROR(bad_.grow(bad_bytes_));
    RETURN_IF_ERROR(check(cudaMemcpyAsync(sent_.data(), host_.data(), run.sent_bytes,
                                          cudaMemcpyHostToDevice, stream_),
                          "send a batch"));
    RETURN_IF_ERROR(check(cudaMemsetAsync(job.coefficients, 0, run.coefficients_bytes, stream_),
                          "clear memory"));
    RETURN_IF_ERROR(check(cudaMemsetAsync(job.bad, 0, bad_bytes_, stream_), "clear memory"));
    RETURN_IF_ERROR(check(launch_kernels(run, stream_), "start the kernels"));
    return check(cudaMemcpyAsync(bad_.data(), job.bad, bad_bytes_, cudaMemcpyDeviceToHost, stream_),
                 "ask for what was bad");
  }

  Status wait(uint32_t* bad) override {
    RETURN_IF_ERROR(enter());
    RETURN_IF_ERROR(check(cudaStreamSynchronize(stream_), "run the kernels"));
    std::memcpy(bad, bad_.data(), bad_bytes_);
    return {};
  }

  Status copy(Bytes from, uint8_t* to) override {
    RETURN_IF_ERROR(enter());
    RETURN_IF_ERROR(
        check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
              "send a sample"));
    return check(cudaStreamSynchronize(stream_), "send a sample");
  }

 private:
  // The device is a thread's.
  Status enter() const { return check(cudaSetDevice(device_), "use the device"); }

  const int device_;
  cudaStream_t stream_ = nullptr;
  gpu::Memory host_{true};
  gpu::Memory bad_{true};
  gpu::Memory sent_{false};
  gpu::Memory work_{false};
  size_t bad_bytes_ = 0;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : number_(number) {}
  int number() const override { return number_; }

  Result<std::unique_ptr<Queue>> open_queue() override {
    auto queue = std::make_unique<CudaQueue>(number_);
    RETURN_IF_ERROR(queue->open());
    return queue;
  }

  Result<std::shared_ptr<uint8_t>> allocate(size_t bytes) override {
    RETURN_IF_ERROR(check(cudaSetDevice(number_), "use the device"));
    auto memory = std::make_shared<gpu::Memory>(false);
    RETURN_IF_ERROR(memory->grow(bytes));
    return std::shared_ptr<uint8_t>(memory, memory->data());
  }

 private:
  const int number_;
};

}  // namespace

Result<std::shared_ptr<Device>> open_device(int number) {
  int count = 0;
  RETURN_IF_ERROR(check(cudaGetDeviceCount(&count), "find a device"));
  if (number < 0 || number >= count) {
    return fail(Code::kNotFound, "GPU: there is no device {}, but {}, counted from 0", number,
                count);
  }
  return std::make_shared<CudaDevice>(number);
}

}  // namespace forebay::image::gpu
