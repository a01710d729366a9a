// Batches of encoded images that the caller has in its memory, several at the same time: made by
// the calling thread, or by a GPU behind what the caller's stream does.
#pragma once

#include "base/mutex.h"
#include "image/prepare_gpu.h"

namespace forebay::image {

// A file that is kept where it is decoded, so that nothing of it has to go there again.
struct StoredFile {
  // On the host: what a GPU is no good for, or without a GPU.
  base::ByteVector file;
  // Else: where its bits lie in the GPU's memory, which may be other files' too.
  std::optional<jpeg::gpu::Stored> jpeg;
  std::shared_ptr<uint8_t> memory;
  int device = 0;  // gpu::Device::number()
};

// Any thread may call anything.
class BatchDecoder : public std::enable_shared_from_this<BatchDecoder> {
 public:
  // `device`: where samples go, and JPEGs are decoded; nullptr: this machine's memory. Errors: as
  // check_options().
  static Result<std::shared_ptr<BatchDecoder>> make(const Transform& transform,
                                                    const TensorOptions& options,
                                                    std::shared_ptr<gpu::Device> device,
                                                    Damaged damaged = Damaged::kRefuse);

  // A batch on its way; one thread at a time.
  class Pending {
   public:
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // As GpuPreparer::finish(); the first call waits. Of each request.
    std::span<const PrepareRequest> finish();

   private:
    friend BatchDecoder;
    explicit Pending(std::vector<PrepareRequest> requests) : requests_(std::move(requests)) {}

    std::vector<PrepareRequest> requests_;
    std::shared_ptr<BatchDecoder> decoder_;
    std::unique_ptr<GpuPreparer> preparer_;  // until it has finished
  };
  // As GpuPreparer::begin(), with zeros in place of bad samples anywhere: files and room for
  // samples stay until finish() or the end of what is given. `stream`: as gpu::Queue's.
  std::unique_ptr<Pending> begin(std::vector<PrepareRequest> requests, void* stream);

  // Whether requests may have it: not where it lies in another device's memory.
  bool may_use(const StoredFile& stored) const {
    return !stored.jpeg || (device_ != nullptr && device_->number() == stored.device);
  }
  // Copies files. What is wrong with one shows when it is decoded. Errors: the device's.
  Result<std::vector<std::shared_ptr<StoredFile>>> store(std::span<const Bytes> files) const;

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
  // That nobody uses; what they began last may still run.
  std::vector<std::unique_ptr<GpuPreparer>> idle_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Preparer>> idle_host_ GUARDED_BY(mutex_);
};

}  // namespace forebay::image
