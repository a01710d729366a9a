#include "image/batch_decoder.h"

#include <algorithm>

#include "image/options.h"

namespace forebay::image {
namespace {

// How many unused preparers keep their memory. Their last work may still run.
constexpr size_t kIdleKept = 16;

}  // namespace

Result<std::shared_ptr<BatchDecoder>> BatchDecoder::make(const Transform& transform,
                                                         const TensorOptions& options,
                                                         std::shared_ptr<gpu::Device> device,
                                                         Damaged damaged) {
  RETURN_IF_ERROR(check_options(transform, options).at("BatchDecoder"));
  return std::shared_ptr<BatchDecoder>(
      new BatchDecoder(transform, options, std::move(device), damaged));
}

std::unique_ptr<BatchDecoder::Pending> BatchDecoder::begin(std::vector<PrepareRequest> requests,
                                                           void* stream) {
  std::unique_ptr<Pending> pending(new Pending(std::move(requests)));
  if (device_ == nullptr) {
    auto preparer = take_host();
    preparer->prepare(pending->requests_);
    for (const PrepareRequest& request : pending->requests_) {
      if (!request.status.ok()) preparer->clear(request);
    }
    const base::MutexLock lock(mutex_);
    idle_host_.push_back(std::move(preparer));
    return pending;
  }
  pending->decoder_ = shared_from_this();
  pending->preparer_ = take();
  pending->preparer_->use_stream(stream);
  pending->preparer_->begin(pending->requests_, true);
  return pending;
}

// Takes the first unused preparer whose work is done, or makes a new one.
std::unique_ptr<GpuPreparer> BatchDecoder::take() {
  {
    const base::MutexLock lock(mutex_);
    auto one = std::ranges::find_if(idle_, [](const auto& idle) { return idle->is_done(); });
    if (one == idle_.end() && idle_.size() >= kIdleKept) one = idle_.begin();
    if (one != idle_.end()) {
      auto taken = std::move(*one);
      idle_.erase(one);
      return taken;
    }
  }
  return std::make_unique<GpuPreparer>(transform_, options_, device_, damaged_);
}

void BatchDecoder::give_back(std::unique_ptr<GpuPreparer> preparer) {
  const base::MutexLock lock(mutex_);
  if (idle_.size() < kIdleKept) idle_.push_back(std::move(preparer));
}

std::unique_ptr<Preparer> BatchDecoder::take_host() {
  {
    const base::MutexLock lock(mutex_);
    if (!idle_host_.empty()) {
      auto taken = std::move(idle_host_.back());
      idle_host_.pop_back();
      return taken;
    }
  }
  return std::make_unique<Preparer>(transform_, options_, damaged_);
}

Result<std::vector<std::shared_ptr<ResidentFile>>> BatchDecoder::store(
    std::span<const Bytes> files) const {
  std::vector<std::shared_ptr<ResidentFile>> all;
  std::vector<size_t> ends;  // where the data of each file ends in `bits`
  base::ByteVector bits;
  jpeg::gpu::Plan plan;
  for (const Bytes file : files) {
    auto stored = std::make_shared<ResidentFile>();
    const auto source = read_header(file, transform_.oriented);
    if (device_ != nullptr && source && source->format == Format::kJpeg &&
        source->orientation == Orientation{}) {
      stored->jpeg = plan.store(file, source->jpeg, &bits);
    }
    if (!stored->jpeg) stored->file.assign(file.begin(), file.end());
    ends.push_back(bits.size());
    all.push_back(std::move(stored));
  }
  std::shared_ptr<uint8_t> memory;
  if (!bits.empty()) {
    ASSIGN_OR_RETURN(memory, device_->allocate(bits.size()));
    ASSIGN_OR_RETURN(const auto queue, device_->open_queue());
    RETURN_IF_ERROR(queue->send(bits, memory.get()));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    auto& jpeg = all[i]->jpeg;
    if (!jpeg) continue;
    jpeg->bits = memory.get() + ends[i] - jpeg->bits_bytes;
    all[i]->memory = memory;
    all[i]->device = device_->number();
  }
  return all;
}

std::span<const PrepareRequest> BatchDecoder::Pending::finish() {
  if (preparer_ != nullptr) {
    preparer_->finish(requests_);
    decoder_->give_back(std::move(preparer_));
  }
  return requests_;
}

BatchDecoder::Pending::~Pending() {
  if (preparer_ != nullptr) decoder_->give_back(std::move(preparer_));
}

}  // namespace forebay::image
