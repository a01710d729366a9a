// For tests of what runs on a GPU.
#pragma once

#ifdef FOREBAY_CUDA
#include <cuda_runtime_api.h>
#endif

#include <cstring>

#include "image/gpu.h"

namespace forebay::image {

// The host in place of a GPU, and the GPU where there is one.
inline std::vector<std::shared_ptr<gpu::Device>> devices() {
  std::vector<std::shared_ptr<gpu::Device>> all{gpu::host_device()};
  if (const auto gpu = gpu::open_device(0)) all.push_back(*gpu);
  return all;
}

// Memory of a device.
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
    // Of the host's memory too, where there is a driver.
    const bool copied = cudaMemcpy(to, from, bytes_, cudaMemcpyDefault) == cudaSuccess;
    if (copied && cudaDeviceSynchronize() == cudaSuccess) return;
#endif
    std::memcpy(to, from, bytes_);
  }

  size_t bytes_;
  std::shared_ptr<uint8_t> memory_;
};

}  // namespace forebay::image
