// A sample's whole way from encoded bytes to its place in a batch, on a GPU; the twin of prepare.h.
// Samples are the same, bit for bit, as those that the host makes.
#pragma once

#include "image/gpu_round.h"

namespace forebay::image {

// Keeps its buffers between samples. One thread at a time.
class GpuPreparer {
 public:
  GpuPreparer(const Transform& transform, const TensorOptions& options,
              std::shared_ptr<gpu::Device> device, Damaged damaged = Damaged::kRefuse);

  // Same contract as Preparer::prepare(), but `out` points to device memory. The host decodes what
  // a GPU cannot take or finds malformed, and says what is wrong with it; without `on_gpu` it
  // decodes everything. Further errors: kIo and kNoMemory of the device.
  void prepare(std::span<PrepareRequest> requests, bool on_gpu);

  // The same in two steps. begin() comes back when all is on its way, and with the errors that are
  // known by then; what is behind it in its stream finds the samples, and zeros where one is not in
  // order. finish() waits and mends these, or says what is wrong with them. Between the two the
  // requests and their files stay as they are.
  void begin(std::span<PrepareRequest> requests, bool on_gpu);
  void finish(std::span<PrepareRequest> requests);
  // Whether finish() would not wait for the GPU.
  bool is_done();
  // Where everything goes from the next begin() on: as gpu::Queue's.
  void use_stream(void* stream) { stream_ = stream; }

  // Zeros in place of a sample of the transform's size.
  Status clear(uint8_t* out);
  size_t sample_bytes() const { return sample_bytes_; }

  // Samples that the GPU made, so far.
  uint64_t made_on_gpu() const { return made_on_gpu_; }

 private:
  enum class Added : uint8_t {
    kYes,
    kNoRoom,  // beside the others
    kNo,      // it is left to the host
  };
  struct OnHost {
    size_t number;  // of the request
    Draw drawn;
    uint64_t at = 0;  // Round::take_made()
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
  Preparer host_;  // makes bytes, and erases nothing
  const std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;  // from the first request on
  std::optional<void*> stream_;        // none: the queue's own
  gpu::Queue::Memory memory_;
  uint64_t sent_room_ = 0;
  uint64_t work_room_ = 0;

  gpu::Round round_;
  uint64_t sent_begin_ = 0;      // where the round's memory begins
  std::vector<size_t> regions_;  // of the round: their requests' numbers
  std::vector<OnHost> on_host_;  // of the round
  uint64_t on_host_bytes_ = 0;
  std::vector<Zeros> zeros_;  // of the round
  std::vector<PrepareRequest> host_requests_;
  std::vector<base::ByteVector> restored_;  // their files, of those that are stored
  std::vector<size_t> running_;             // requests whose regions run, in the order of the runs
  std::vector<size_t> bad_;                 // requests that the GPU found malformed
  std::vector<uint32_t> flags_;
  Status failed_;  // of the device, since begin()
  uint64_t made_on_gpu_ = 0;
};

}  // namespace forebay::image
