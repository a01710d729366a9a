// Makes samples of encoded images that the caller has in memory, several batches at the same time.
// The calling thread does the work, or a GPU does it after the earlier work of the caller's stream.
#pragma once

#include "base/mutex.h"
#include "image/prepare_gpu.h"

namespace forebay::image {

// A file that is kept where it will be decoded, so that it is not sent there again.
struct ResidentFile {
  // The file itself, on the host: without a GPU, or when the GPU cannot decode it.
  base::ByteVector file;
  // Otherwise, the JPEG whose entropy-coded data lies in the GPU's memory, and that memory. Several
  // files may share the memory.
  std::optional<jpeg::gpu::ResidentJpeg> jpeg;
  std::shared_ptr<uint8_t> memory;
  int device = 0;  // gpu::Device::number()
};

// Any thread may call any function.
class BatchDecoder : public std::enable_shared_from_this<BatchDecoder> {
 public:
  // Makes a decoder. JPEGs are decoded on `device` and samples are written to its memory; with
  // nullptr, this machine does both. Errors: same as check_options().
  static Result<std::shared_ptr<BatchDecoder>> make(const Transform& transform,
                                                    const TensorOptions& options,
                                                    std::shared_ptr<gpu::Device> device,
                                                    Damaged damaged = Damaged::kRefuse);

  // A batch that is being made; used by one thread at a time.
  class Pending {
   public:
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Same contract as GpuPreparer::finish(). The first call waits. Returns the requests with their
    // outcomes.
    std::span<const PrepareRequest> finish();

   private:
    friend BatchDecoder;
    explicit Pending(std::vector<PrepareRequest> requests) : requests_(std::move(requests)) {}

    std::vector<PrepareRequest> requests_;
    std::shared_ptr<BatchDecoder> decoder_;
    std::unique_ptr<GpuPreparer> preparer_;  // null after finish()
  };
  // Same contract as GpuPreparer::begin(), but every bad sample becomes zeros. The files and the
  // room for samples must stay until finish(), or until the returned object is destroyed. `stream`
  // has the meaning of gpu::Queue::use_stream().
  std::unique_ptr<Pending> begin(std::vector<PrepareRequest> requests, void* stream);

  // Whether requests may use this file; false when it lies in the memory of another device.
  bool may_use(const ResidentFile& stored) const {
    return !stored.jpeg || (device_ != nullptr && device_->number() == stored.device);
  }
  // Copies files to where they will be decoded. Errors in a file appear only when it is decoded.
  // Errors: those of the device.
  Result<std::vector<std::shared_ptr<ResidentFile>>> store(std::span<const Bytes> files) const;

 private:
  BatchDecoder(const Transform& transform, const TensorOptions& options,
               std::shared_ptr<gpu::Device> device, Damaged damaged)
      : transform_(transform), options_(options), device_(std::move(device)), damaged_(damaged) {}

  std::unique_ptr<GpuPreparer> take() EXCLUDES(mutex_);
  void give_back(std::unique_ptr<GpuPreparer> preparer) EXCLUDES(mutex_);
  std::unique_ptr<Preparer> take_host() EXCLUDES(mutex_);

  const Transform transform_;
  const TensorOptions options_;
  const std::shared_ptr<gpu::Device> device_;
  const Damaged damaged_;
  base::Mutex mutex_;
  // Preparers that nobody uses. The work that they began last may still run.
  std::vector<std::unique_ptr<GpuPreparer>> idle_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Preparer>> idle_host_ GUARDED_BY(mutex_);
};

}  // namespace forebay::image
