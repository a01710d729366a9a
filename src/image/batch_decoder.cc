#include "image/batch_decoder.h"

#include <algorithm>

#include "image/options.h"

namespace forebay::image {
namespace {

// How many requests a thread works on together. For a GPU this is the least number, because each
// group costs several calls of the driver.
constexpr size_t kTogetherOnGpu = 32;
constexpr size_t kTogetherOnHost = 16;
// Two preparers for each thread and this many more may still run after their batches were
// abandoned.
constexpr size_t kRunningMore = 16;

}  // namespace

Result<std::shared_ptr<BatchDecoder>> BatchDecoder::make(const Transform& transform,
                                                         const TensorOptions& options,
                                                         std::shared_ptr<gpu::Device> device,
                                                         uint32_t threads, Damaged damaged) {
  RETURN_IF_ERROR(check_options(transform, options).at("BatchDecoder"));
  return std::shared_ptr<BatchDecoder>(
      new BatchDecoder(transform, options, std::move(device), threads, damaged));
}

size_t BatchDecoder::group_size(size_t requests) const {
  if (device_ == nullptr) return kTogetherOnHost;
  return std::max<size_t>(kTogetherOnGpu, (requests + threads_ - 1) / threads_);
}

std::unique_ptr<BatchDecoder::Pending> BatchDecoder::begin(std::vector<PrepareRequest> requests,
                                                           void* after) {
  std::unique_ptr<Pending> pending(new Pending(shared_from_this(), std::move(requests), after));
  const size_t groups = pending->groups_.size();
  if (groups <= 1) {  // waking a thread would take longer
    for (Pending::Group& group : pending->groups_) pending->begin(&group);
    return pending;
  }
  start_threads(std::min<size_t>(groups, threads_));
  pending->hand_out(&tasks_);
  return pending;
}

void BatchDecoder::start_threads(size_t count) {
  const base::MutexLock lock(mutex_);
  const auto work = [this](uint32_t) {
    while (const auto task = tasks_.pop()) {
      task->pending->begin(task->group);
      task->pending->note_begun();
    }
  };
  while (crews_.size() < count) {
    try {
      crews_.emplace_back().start(1, work);
    } catch (const base::NoThread&) {
      crews_.pop_back();
      if (crews_.empty()) throw;
      return;
    }
  }
}

void BatchDecoder::make_on_host(std::span<PrepareRequest> requests) {
  auto preparer = take_host();
  preparer->prepare(requests);
  for (const PrepareRequest& request : requests) {
    if (!request.status.ok()) preparer->clear(request);
  }
  const base::MutexLock lock(mutex_);
  idle_host_.push_back(std::move(preparer));
}

// Takes the first unused preparer whose work is done, or makes a new one. If many unused preparers
// are still running, because the GPU is far behind its callers, takes one of these, which then
// waits for its own work.
std::unique_ptr<GpuPreparer> BatchDecoder::take() {
  {
    const base::MutexLock lock(mutex_);
    auto one = std::ranges::find_if(idle_, [](const auto& idle) { return idle->is_done(); });
    if (one == idle_.end() && idle_.size() >= 2 * size_t{threads_} + kRunningMore) {
      one = idle_.begin();
    }
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
  idle_.push_back(std::move(preparer));
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

BatchDecoder::Pending::Pending(std::shared_ptr<BatchDecoder> decoder,
                               std::vector<PrepareRequest> requests, void* after)
    : decoder_(std::move(decoder)), requests_(std::move(requests)), after_(after) {
  const std::span<PrepareRequest> all(requests_);
  const size_t size = decoder_->group_size(all.size());
  for (size_t first = 0; first < all.size(); first += size) {
    groups_.push_back({all.subspan(first, std::min(size, all.size() - first)), nullptr});
  }
}

void BatchDecoder::Pending::hand_out(base::Queue<Task>* tasks) {
  for (Group& group : groups_) {
    {
      const base::MutexLock lock(mutex_);
      ++not_begun_;
    }
    try {
      tasks->push({this, &group});
    } catch (...) {
      note_begun();  // otherwise this batch would wait for the group forever
      throw;
    }
  }
}

// Makes a group's samples, or starts making them on the GPU.
void BatchDecoder::Pending::begin(Group* group) {
  try {
    if (decoder_->device_ == nullptr) {
      decoder_->make_on_host(group->requests);
    } else {
      group->preparer = decoder_->take();
      group->preparer->begin(group->requests, true, after_);
    }
  } catch (const std::bad_alloc&) {
    group->preparer = nullptr;  // its destructor waits for the work that it began
    for (PrepareRequest& request : group->requests) {
      request.status = {base::Code::kNoMemory, "BatchDecoder: not enough memory for the batch"};
    }
  }
}

void BatchDecoder::Pending::note_begun() {
  const base::MutexLock lock(mutex_);
  if (--not_begun_ == 0) begun_.notify_all();
}

void BatchDecoder::Pending::wait_begun() {
  const base::MutexLock lock(mutex_);
  while (not_begun_ > 0) begun_.wait(mutex_);
}

Status BatchDecoder::Pending::order_before(void* stream) {
  wait_begun();
  for (const Group& group : groups_) {
    if (group.preparer != nullptr) RETURN_IF_ERROR(group.preparer->order_before(stream));
    for (const PrepareRequest& request : group.requests) {
      if (request.status.code() == base::Code::kNoMemory) return request.status;
    }
  }
  ordered_ = true;
  return {};
}

std::span<const PrepareRequest> BatchDecoder::Pending::finish(void* after) {
  wait_begun();
  for (Group& group : groups_) {
    if (group.preparer == nullptr) continue;
    group.preparer->finish(group.requests, after);
    decoder_->give_back(std::move(group.preparer));
  }
  return requests_;
}

BatchDecoder::Pending::~Pending() {
  wait_begun();
  for (Group& group : groups_) {
    if (group.preparer == nullptr) continue;
    if (!ordered_) group.preparer->wait();
    decoder_->give_back(std::move(group.preparer));
  }
}

}  // namespace forebay::image
