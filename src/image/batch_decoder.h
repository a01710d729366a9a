// Makes samples of encoded images that the caller has in memory, several batches at the same time.
// Its own threads do the work, or prepare it for a GPU.
#pragma once

#include <deque>
#include <limits>

#include "base/crew.h"
#include "base/mutex.h"
#include "base/queue.h"
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
  // nullptr, this machine does both. `threads` is at least 1. Errors: same as check_options().
  static Result<std::shared_ptr<BatchDecoder>> make(const Transform& transform,
                                                    const TensorOptions& options,
                                                    std::shared_ptr<gpu::Device> device,
                                                    uint32_t threads,
                                                    Damaged damaged = Damaged::kRefuse);
  ~BatchDecoder() { tasks_.close(); }

  class Pending;
  // A group of requests (Pending::Group) that a thread is to begin.
  struct Task;
  // A batch that is being made; used by one thread at a time.
  class Pending {
   public:
    ~Pending();
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

    // Orders the later work of a CUDA stream after the batch (gpu::Queue::order_before()). Waits
    // until all work of the batch has been queued on the GPU; without a GPU, until the batch is
    // made.
    Status order_before(void* stream);
    // Same contract as GpuPreparer::finish(). The first call waits. Returns the requests with their
    // outcomes.
    //
    // Samples that are made late, because the GPU found them malformed, are written after the event
    // `after`, a cudaEvent_t, unless it is null.
    std::span<const PrepareRequest> finish(void* after = nullptr);

   private:
    friend BatchDecoder;
    // Neighbouring requests that one thread works on.
    struct Group {
      std::span<PrepareRequest> requests;
      std::unique_ptr<GpuPreparer> preparer;  // null without a GPU, and after finish()
    };
    Pending(std::shared_ptr<BatchDecoder> decoder, std::vector<PrepareRequest> requests,
            void* after);
    void hand_out(base::Queue<Task>* tasks) EXCLUDES(mutex_);
    void begin(Group* group);
    void note_begun() EXCLUDES(mutex_);
    void wait_begun() EXCLUDES(mutex_);

    const std::shared_ptr<BatchDecoder> decoder_;
    std::vector<PrepareRequest> requests_;
    std::vector<Group> groups_;
    void* const after_;
    bool ordered_ = false;  // order_before() was called
    base::Mutex mutex_;
    base::CondVar begun_;
    size_t not_begun_ GUARDED_BY(mutex_) = 0;  // groups that no thread has begun yet
  };
  // Same contract as GpuPreparer::begin(), but every bad sample becomes zeros. The files, the room
  // for samples and the event `after` must stay valid until finish(), or until the returned object
  // is destroyed. Its destructor waits for the batch, unless order_before() was called: then the
  // room belongs to that call's stream.
  std::unique_ptr<Pending> begin(std::vector<PrepareRequest> requests, void* after)
      EXCLUDES(mutex_);

  // Whether requests may use this file; false when it lies in the memory of another device.
  bool may_use(const ResidentFile& stored) const {
    return !stored.jpeg || (device_ != nullptr && device_->number() == stored.device);
  }
  // Copies files to where they will be decoded. Errors in a file appear only when it is decoded.
  // Errors: those of the device.
  Result<std::vector<std::shared_ptr<ResidentFile>>> store(std::span<const Bytes> files) const;

 private:
  BatchDecoder(const Transform& transform, const TensorOptions& options,
               std::shared_ptr<gpu::Device> device, uint32_t threads, Damaged damaged)
      : transform_(transform),
        options_(options),
        device_(std::move(device)),
        threads_(threads),
        damaged_(damaged) {}

  size_t group_size(size_t requests) const;
  void start_threads(size_t count) EXCLUDES(mutex_);
  void make_on_host(std::span<PrepareRequest> requests) EXCLUDES(mutex_);
  std::unique_ptr<GpuPreparer> take() EXCLUDES(mutex_);
  void give_back(std::unique_ptr<GpuPreparer> preparer) EXCLUDES(mutex_);
  std::unique_ptr<Preparer> take_host() EXCLUDES(mutex_);

  const Transform transform_;
  const TensorOptions options_;
  const std::shared_ptr<gpu::Device> device_;
  const uint32_t threads_;
  const Damaged damaged_;
  base::Mutex mutex_;
  // Unused preparers, which keep their memory. The last work that they began may still run.
  std::vector<std::unique_ptr<GpuPreparer>> idle_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Preparer>> idle_host_ GUARDED_BY(mutex_);
  base::Queue<Task> tasks_{std::numeric_limits<size_t>::max()};
  // One thread each. They are destroyed first, because they use the other members.
  std::deque<base::Crew> crews_ GUARDED_BY(mutex_);
};

struct BatchDecoder::Task {
  Pending* pending;
  Pending::Group* group;
};

}  // namespace forebay::image
