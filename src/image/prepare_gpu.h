// Makes samples from encoded bytes on a GPU; the twin of prepare.h. The samples equal those that
// the host makes, bit for bit.
#pragma once

#include "image/round_gpu.h"

namespace forebay::image {

// Keeps its buffers between samples. Used by one thread at a time.
class GpuPreparer {
 public:
  GpuPreparer(const Transform& transform, const TensorOptions& options,
              std::shared_ptr<gpu::Device> device, Damaged damaged = Damaged::kRefuse);

  // Same contract as Preparer::prepare(), but `out` points to device memory. The host decodes
  // images that the GPU cannot decode or finds malformed, and reports their errors; without
  // `on_gpu` the host decodes everything. Further errors: kIo and kNoMemory of the device.
  void prepare(std::span<PrepareRequest> requests, bool on_gpu);

  // Do the same as prepare() in two steps. begin() returns when all work has been started, with the
  // errors that are known by then. The GPU begins after the event `after`, a cudaEvent_t, unless it
  // is null, and writes zeros for malformed images. finish() waits, then replaces these zeros by
  // samples, after its own event `after`, or reports errors. Between the two calls the requests and
  // their files must stay unchanged.
  void begin(std::span<PrepareRequest> requests, bool on_gpu, void* after = nullptr);
  void finish(std::span<PrepareRequest> requests, void* after = nullptr);
  // Whether finish() would return without waiting for the GPU.
  bool is_done();
  // Waits for the work that begin() started.
  void wait();
  // Orders the later work of a stream after the work that begin() started
  // (gpu::Queue::order_before()). Errors: those of the device in begin().
  Status order_before(void* stream);

  // Writes zeros in place of a sample of the transform's size.
  Status clear(uint8_t* out);
  size_t sample_bytes() const { return sample_bytes_; }

  // The number of samples that the GPU has made so far.
  uint64_t made_on_gpu() const { return made_on_gpu_; }

 private:
  enum class Added : uint8_t {
    kYes,
    kNoRoom,  // no room in this round
    kNo,      // the host must decode it
  };
  struct OnHost {
    size_t number;  // the number of the request
    Draw drawn;
    uint64_t at = 0;  // the result of Round::take_made()
  };
  struct Zeros {
    Size size;
    uint8_t* out;
  };

  Status open();
  Result<BegunSample> begin_one(const PrepareRequest& request) const;
  Added add(size_t number, const PrepareRequest& request, const BegunSample& begun);
  void add_on_host(std::span<PrepareRequest> requests, size_t number, const Draw& drawn);
  void begin_round();
  size_t round_samples() const { return regions_.size() + on_host_.size() + zeros_.size(); }
  void run(std::span<PrepareRequest> requests);
  Status make_on_host(std::span<PrepareRequest> requests);
  Status restore(PrepareRequest* request);
  Status run_round();
  Status reserve(uint64_t sent, uint64_t work);
  gpu::Queue::Memory here() const;
  Status collect();

  const Transform transform_;
  const size_t sample_bytes_;
  Preparer host_;  // makes samples of bytes, and does not erase
  const std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;  // opened by the first request
  gpu::Queue::Memory memory_;
  uint64_t sent_room_ = 0;
  uint64_t work_room_ = 0;

  gpu::Round round_;
  uint64_t sent_begin_ = 0;      // where the memory of the round begins
  std::vector<size_t> regions_;  // the requests of the round's regions
  std::vector<OnHost> on_host_;  // the round's samples that the host makes
  uint64_t on_host_bytes_ = 0;
  std::vector<Zeros> zeros_;  // the round's samples that become zeros
  std::vector<PrepareRequest> host_requests_;
  std::vector<base::ByteVector> restored_;  // files of resident JPEGs for host_requests_
  std::vector<size_t> running_;             // requests whose regions run, in order
  std::vector<size_t> bad_;                 // requests that the GPU found malformed
  std::vector<uint32_t> flags_;
  Status failed_;  // the first error of the device since begin()
  uint64_t made_on_gpu_ = 0;
};

}  // namespace forebay::image
