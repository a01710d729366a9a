#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "image/gpu/device_gpu.h"
#include "image/gpu/launch_gpu.h"

namespace forebay::image::gpu {
namespace {

using base::Code;
using base::fail;
using base::Result;
using base::Status;

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // otherwise the next launch would report this error
  const bool memory = error == cudaErrorMemoryAllocation;
  return fail(memory ? Code::kNoMemory : Code::kIo, "GPU: cannot {}: {}", what,
              cudaGetErrorString(error));
}

// Returns a function of the driver, which the runtime finds, or nullptr when there is none.
template <class Function>
Function driver_function(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* found = nullptr;
  const auto error =
      cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, nullptr);
  return error == cudaSuccess ? reinterpret_cast<Function>(found) : nullptr;
}

// Sets the device of the calling thread while it exists, then restores the earlier device, or none.
// (Restoring by number would create a context on the earlier device.)
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    static const auto get = driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
    if (get != nullptr) has_before_ = get(&before_) == CUDA_SUCCESS;
    status_ = check(cudaSetDevice(device), "use the device");
  }
  ~CurrentDevice() {
    static const auto set = driver_function<CUresult (*)(CUcontext)>("cuCtxSetCurrent");
    if (has_before_ && set != nullptr) set(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  CUcontext before_ = nullptr;
  bool has_before_ = false;
  Status status_;
};

// Memory of a device, or page-locked memory of the host, with one owner.
class Memory {
 public:
  Memory(int device, bool on_host) : device_(device), on_host_(on_host) {}
  ~Memory() {
    const CurrentDevice current(device_);
    release();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t size() const { return size_; }
  // Call it while the memory's device is the current device. The content is lost, except the first
  // `kept` bytes of host memory, which are kept on an error too.
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

  const int device_;
  const bool on_host_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(int device) : device_(device) {}
  ~CudaQueue() override {
    const CurrentDevice current(device_);
    if (done_ != nullptr) {
      cudaEventSynchronize(done_);
      cudaEventDestroy(done_);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Status open() {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    RETURN_IF_ERROR(
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream"));
    // A waiting thread sleeps, because other threads of the host decode meanwhile.
    RETURN_IF_ERROR(
        check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming | cudaEventBlockingSync),
              "make an event"));
    return bad_.grow(kRegionSlots * sizeof(uint32_t));
  }

  Result<Queue::Memory> reserve(size_t sent, size_t work) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    RETURN_IF_ERROR(host_.grow(sent, host_.size()));
    RETURN_IF_ERROR(sent_.grow(sent));
    RETURN_IF_ERROR(work_.grow(work));
    return Queue::Memory{host_.data(), sent_.data(), work_.data()};
  }

  Status begin_after(void* event) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    return check(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(event)),
                 "wait for the work before a batch");
  }
  Status order_before(void* stream) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    return check(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), done_),
                 "let the caller's stream wait for a batch");
  }

  Status run(const KernelArguments& arguments) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    Status begun = begin(arguments);
    // Also after an error, because the work begun before it must be waited for.
    const Status marked = mark_end();
    return begun.ok() ? marked : begun;
  }

  bool is_done() override { return cudaEventQuery(done_) != cudaErrorNotReady; }

  Status wait(uint32_t* bad) override {
    const size_t bytes = std::exchange(bad_bytes_, 0);
    RETURN_IF_ERROR(check(cudaEventSynchronize(done_), "run the kernels"));
    std::memcpy(bad, bad_.data(), bytes);
    return {};
  }

  Status clear(uint8_t* out, size_t bytes) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    return finish(cudaMemsetAsync(out, 0, bytes, stream_), "clear memory");
  }
  Status send(base::Bytes from, uint8_t* to) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    return finish(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
                  "send files");
  }
  Status fetch(const uint8_t* from, std::span<uint8_t> to) override {
    const CurrentDevice current(device_);
    RETURN_IF_ERROR(current.status());
    return finish(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
                  "fetch a file");
  }

 private:
  Status begin(const KernelArguments& arguments) {
    const RoundArrays& job = arguments.job;
    const size_t bad_bytes = job.region_count * sizeof(uint32_t);
    FOREBAY_CHECK(bad_bytes_ + bad_bytes <= bad_.size());
    RETURN_IF_ERROR(check(
        cudaMemcpyAsync(sent_.data() + arguments.sent_begin, host_.data() + arguments.sent_begin,
                        arguments.sent_bytes, cudaMemcpyHostToDevice, stream_),
        "send a batch"));
    if (bad_bytes == 0) return check(launch_kernels(arguments, stream_), "start the kernels");
    RETURN_IF_ERROR(
        check(cudaMemsetAsync(job.coefficients, 0, arguments.coefficients_bytes, stream_),
              "clear memory"));
    RETURN_IF_ERROR(check(launch_kernels(arguments, stream_), "start the kernels"));
    RETURN_IF_ERROR(check(cudaMemcpyAsync(bad_.data() + bad_bytes_, job.bad, bad_bytes,
                                          cudaMemcpyDeviceToHost, stream_),
                          "fetch the flags of malformed images"));
    bad_bytes_ += bad_bytes;
    return {};
  }
  // Marks the end of everything that was begun.
  Status mark_end() { return check(cudaEventRecord(done_, stream_), "mark a batch's end"); }
  // Waits for the operation that was begun last.
  Status finish(cudaError_t begun, const char* what) {
    RETURN_IF_ERROR(check(begun, what));
    return check(cudaStreamSynchronize(stream_), what);
  }

  const int device_;
  // The stream belongs to this queue alone, so that several queues run side by side while one
  // stream waits for all of them.
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  gpu::Memory host_{device_, true};
  gpu::Memory bad_{device_, true};
  gpu::Memory sent_{device_, false};
  gpu::Memory work_{device_, false};
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
    const CurrentDevice current(number_);
    RETURN_IF_ERROR(current.status());
    auto memory = std::make_shared<gpu::Memory>(number_, false);
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
    return fail(Code::kNotFound, "GPU: no device {}: this machine has {}, numbered from 0", number,
                count);
  }
  const CurrentDevice current(number);
  RETURN_IF_ERROR(current.status());
  if (const cudaError_t error = find_kernels(); error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return fail(Code::kUnsupported,
                "GPU: device {} cannot run the kernels, which need compute "
                "capability 8.0 or later: {}",
                number, cudaGetErrorString(error));
  }
  return std::make_shared<CudaDevice>(number);
}

}  // namespace forebay::image::gpu
