#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "image/gpu/device_gpu.h"
#include "io/large_buffer.h"

namespace forebay::image::gpu {
namespace {

using base::Result;
using base::Status;

// Runs each kernel item by item on the host.
class HostQueue final : public Queue {
 public:
  Result<Memory> reserve(size_t sent, size_t work) override {
    if (sent > sent_.size()) {
      io::LargeBuffer larger(sent);
      if (sent_.size() > 0) std::memcpy(larger.data(), sent_.data(), sent_.size());
      sent_ = std::move(larger);
    }
    if (work > work_.size()) work_ = io::LargeBuffer(work);
    // Host memory and sent memory are the same, so nothing needs to be copied.
    return Memory{sent_.data(), sent_.data(), work_.data()};
  }

  Status begin_after(void*) override { return {}; }
  Status order_before(void*) override { return {}; }

  Status run(const KernelArguments& arguments) override {
    const RoundArrays& job = arguments.job;
    std::fill_n(reinterpret_cast<uint8_t*>(job.coefficients), arguments.coefficients_bytes,
                uint8_t{0});
    for (uint32_t item = 0; item < job.segment_count; ++item) {
      std::array<uint32_t, jpeg::gpu::RingReader::kRingWords> ring;
      DecodeSegments{job}(item, ring.data(), 1);
    }
    each(TransformBlocks{job}, job.region_count, arguments.blocks_max);
    each(MakePixels{job}, job.region_count, arguments.quads_max);
    each(ResizeAcross{job}, job.region_count, arguments.between_max);
    each(WriteSamples{job}, job.count, arguments.outputs_max);
    bad_.insert(bad_.end(), job.bad, job.bad + job.region_count);
    return {};
  }

  bool is_done() override { return true; }

  Status wait(uint32_t* bad) override {
    std::ranges::copy(bad_, bad);
    bad_.clear();
    return {};
  }

  Status clear(uint8_t* out, size_t bytes) override {
    std::memset(out, 0, bytes);
    return {};
  }
  Status send(base::Bytes from, uint8_t* to) override {
    std::ranges::copy(from, to);
    return {};
  }
  Status fetch(const uint8_t* from, std::span<uint8_t> to) override {
    std::copy_n(from, to.size(), to.data());
    return {};
  }

 private:
  template <class Kernel>
  static void each(const Kernel& kernel, uint32_t count, uint32_t items) {
    for (uint32_t number = 0; number < count; ++number) {
      for (uint32_t item = 0; item < items; ++item) kernel(number, item);
    }
  }

  io::LargeBuffer sent_;
  io::LargeBuffer work_;
  std::vector<uint32_t> bad_;
};

class HostDevice final : public Device {
 public:
  int number() const override { return -1; }
  Result<std::unique_ptr<Queue>> open_queue() override { return std::make_unique<HostQueue>(); }
  Result<std::shared_ptr<uint8_t>> allocate(size_t bytes) override {
    auto memory = std::make_shared<io::LargeBuffer>(bytes);
    return std::shared_ptr<uint8_t>(memory, memory->data());
  }
};

}  // namespace

#ifndef FOREBAY_CUDA
Result<std::shared_ptr<Device>> open_device(int) {
  return base::fail(base::Code::kUnsupported,
                    "GPU: this build of Forebay has no CUDA; build it on a machine with nvcc");
}
#endif

std::shared_ptr<Device> host_device() { return std::make_shared<HostDevice>(); }

}  // namespace forebay::image::gpu
