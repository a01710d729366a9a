// For tests: the devices to test on, and memory of a device.
#pragma once

#ifdef FOREBAY_CUDA
#include <cuda_runtime_api.h>
#endif

#include <cstring>

#include "image/gpu/device_gpu.h"

namespace forebay::image {

// Returns the host in place of a GPU and, if there is one, the GPU.
inline std::vector<std::shared_ptr<gpu::Device>> devices() {
  std::vector<std::shared_ptr<gpu::Device>> all{gpu::host_device()};
  if (const auto gpu = gpu::open_device(0)) all.push_back(*gpu);
  return all;
}

// A piece of memory of a device with given content.
class DeviceBytes {
 public:
  DeviceBytes(gpu::Device& device, const base::ByteVector& content)
      : bytes_(content.size()), memory_(device.allocate(bytes_).value()) {
    copy(content.data(), memory_.get());
  }
  uint8_t* data() const { return memory_.get(); }
  base::ByteVector content() const {
    base::ByteVector out(bytes_);
    copy(data(), out.data());
    return out;
  }

 private:
  void copy(const uint8_t* from, uint8_t* to) const {
#ifdef FOREBAY_CUDA
    // This also works for host memory when there is a driver.
    const bool copied = cudaMemcpy(to, from, bytes_, cudaMemcpyDefault) == cudaSuccess;
    if (copied && cudaDeviceSynchronize() == cudaSuccess) return;
#endif
    std::memcpy(to, from, bytes_);
  }

  size_t bytes_;
  std::shared_ptr<uint8_t> memory_;
};

}  // namespace forebay::image
