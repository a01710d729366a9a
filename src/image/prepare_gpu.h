// A sample's whole way from encoded bytes to its place in a batch, on a GPU; the twin of prepare.h.
// Samples are the same, bit for bit, as those that the host makes.
#pragma once

#include "image/gpu.h"
#include "image/prepare.h"
#include "image/resize_weights.h"
#include "jpeg/plan_gpu.h"

namespace forebay::image {

// Keeps its buffers between samples. One thread at a time.
class GpuPreparer {
 public:
  GpuPreparer(const Transform& transform, const TensorOptions& options,
              std::shared_ptr<gpu::Device> device);
  // As Preparer::prepare(); `out`: in the device's memory. What a GPU cannot take, or finds not
  // quite in order, the host prepares, and says what is wrong with it; all, unless `on_gpu`.
  // Errors too: kIo and kNoMemory of the device.
  void prepare(std::span<PrepareRequest> requests, bool on_gpu);
  // Zeros in place of a sample.
  Status clear(uint8_t* out);
  size_t sample_bytes() const { return host_.sample_bytes(); }

  // Samples that the GPU made, so far.
  uint64_t made_on_gpu() const { return made_on_gpu_; }

 private:
  enum class Added : uint8_t {
    kYes,
    kNoRoom,  // beside the others
    kNo,      // it is left to the host
  };

  void begin();
  Status open();
  Added add(size_t number, const PrepareRequest& request, const BegunSample& begun);
  void add_sample(const PrepareRequest& request, const Draw& drawn);
  gpu::Axis add_axis(const AxisSpec& spec);
  uint64_t add_shown(uint32_t count, bool flip, int64_t begin, uint32_t side, uint32_t first,
                     BorderKind kind);
  void run(std::span<PrepareRequest> requests);
  Status run_job();
  void count_items(gpu::Run* run) const;
  void prepare_on_host(PrepareRequest& request);

  const Transform transform_;
  const TensorOptions options_;
  Preparer host_;
  const std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;  // from the first request on
  gpu::Queue::Memory memory_;
  size_t sent_room_ = 0;
  // What each byte becomes, and what an erased pixel is.
  std::array<uint32_t, 3 * 256> values_;
  std::array<uint32_t, 3> erased_;
  // Of the samples for the GPU.
  std::vector<size_t> taken_;  // requests, by number
  jpeg::gpu::Plan plan_;
  std::vector<gpu::Sample> samples_;
  std::vector<int32_t> numbers_;
  std::vector<int16_t> weights_;
  uint64_t between_bytes_ = 0;
  std::vector<uint32_t> bad_;
  Axis axis_;

  std::vector<size_t> for_host_;  // requests, by number
  base::ByteVector made_;         // a sample, on the host
  uint64_t made_on_gpu_ = 0;
};

}  // namespace forebay::image
