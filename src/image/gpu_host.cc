#include <cstring>

#include "image/gpu.h"
#include "io/large_buffer.h"

namespace forebay::image::gpu {
namespace {

using base::Bytes;
using base::Result;
using base::Status;

// Runs each kernel item by item.
class HostQueue final : public Queue {
 public:
  Result<Memory> reserve(size_t sent, size_t work) override {
    if (sent > sent_.size()) {
      io::LargeBuffer larger(sent);
      if (sent_.size() > 0) std::memcpy(larger.data(), sent_.data(), sent_.size());
      sent_ = std::move(larger);
    }
    if (work > work_.size()) work_ = io::LargeBuffer(work);
    // What is sent from there lies where it is sent to.
    return Memory{sent_.data(), sent_.data(), work_.data()};
  }

  Status run(const Run& run) override {
    const Job& job = job_ = run.job;
    std::memset(job.coefficients, 0, run.coefficients_bytes);
    std::memset(job.bad, 0, job.count * sizeof(uint32_t));
    each(DecodeSegments{job}, 1, job.segment_count);
    each(TransformBlocks{job}, job.count, run.blocks_max);
    each(MakePixels{job}, job.count, run.pixels_max);
    each(ResizeAcross{job}, job.count, run.between_max);
    each(WriteSamples{job}, job.count, job.width * job.height);
    return {};
  }

  Status wait(uint32_t* bad) override {
    std::memcpy(bad, job_.bad, job_.count * sizeof(uint32_t));
    return {};
  }

  Status copy(Bytes from, uint8_t* to) override {
    std::memcpy(to, from.data(), from.size());
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
  Job job_{};
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
                    "GPU: this build of Forebay has no CUDA; build it where nvcc is");
}
#endif

std::shared_ptr<Device> host_device() { return std::make_shared<HostDevice>(); }

}  // namespace forebay::image::gpu
