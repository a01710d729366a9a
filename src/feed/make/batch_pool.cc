#include "feed/make/batch_pool.h"

#include <algorithm>
#include <new>

namespace forebay::feed {

using base::Code;
using base::fail;
using base::MutexLock;

std::unique_ptr<BatchPool::Pooled> BatchPool::allocate() const {
  auto batch = std::make_unique<Pooled>();
  if (shape_.bytes() > 0 && shape_.device != nullptr) {
    auto memory = shape_.device->allocate(shape_.bytes());
    if (!memory) return nullptr;
    batch->memory = std::move(*memory);
  } else if (shape_.bytes() > 0) {
    auto memory = std::make_shared<io::LargeBuffer>(shape_.bytes());
    batch->memory = std::shared_ptr<uint8_t>(memory, memory->data());
  }
  batch->images = batch->memory.get();
  batch->images_bytes = shape_.bytes();
  batch->images_each = shape_.images_each;
  batch->size = shape_.size;
  if (shape_.whole) batch->whole.resize(size_t{shape_.samples} * shape_.images_each);
  if (shape_.files) batch->files.resize(shape_.samples);
  if (shape_.targets) batch->targets.resize(shape_.samples);
  batch->labels.resize(shape_.samples);
  batch->samples.resize(shape_.samples);
  batch->drawn_for.resize(shape_.samples);
  batch->valid.resize(shape_.samples);
  return batch;
}

std::shared_ptr<Batch> BatchPool::take() {
  std::unique_ptr<Pooled> batch;
  {
    MutexLock lock(mutex_);
    if (used() + shape_.bytes() > bytes_max_) return nullptr;
    ++in_use_;
    bytes_peak_ = std::max(bytes_peak_, used());
    if (!free_.empty()) {
      batch = std::move(free_.back());
      free_.pop_back();
    }
  }
  try {
    if (batch == nullptr) batch = allocate();
  } catch (const std::bad_alloc&) {  // handled like a null batch
  }
  if (batch == nullptr) {
    MutexLock lock(mutex_);
    --in_use_;
    return nullptr;
  }
  return {batch.release(), [pool = shared_from_this()](Batch* used) {
            pool->give_back(std::unique_ptr<Pooled>(static_cast<Pooled*>(used)));
          }};
}

size_t BatchPool::in_use() {
  MutexLock lock(mutex_);
  return in_use_;
}

// Frees images and files now, because the next batch's have other sizes.
void BatchPool::give_back(std::unique_ptr<Pooled> batch) {
  for (image::OwnSize& image : batch->whole) image = {};
  for (SampleTargets& targets : batch->targets) targets = {};
  for (base::ByteVector& file : batch->files) file = {};
  MutexLock lock(mutex_);
  --in_use_;
  reserved_ -= std::exchange(batch->reserved, 0);
  if (free_.size() < kept_max_) free_.push_back(std::move(batch));
  if (shortage_ && used() + shortage_->bytes <= bytes_max_) shortage_.reset();
  room_.notify_all();
}

void BatchPool::count(Batch& batch, uint64_t bytes) {
  reserved_ += bytes;
  static_cast<Pooled&>(batch).reserved += bytes;
  bytes_peak_ = std::max(bytes_peak_, used());
}

Status BatchPool::reserve(Batch& batch, uint64_t block, uint64_t bytes,
                          const std::function<void()>& on_shortage) {
  MutexLock lock(mutex_);
  while (!stopped_ && block_ != block) room_.wait(mutex_);
  while (!stopped_ && used() + bytes > bytes_max_) {
    const bool is_new = !shortage_;
    shortage_ = {block, bytes, used()};
    if (is_new) {
      mutex_.unlock();
      on_shortage();
      mutex_.lock();
    } else {
      room_.wait(mutex_);
    }
  }
  shortage_.reset();
  if (stopped_) return fail(Code::kCancelled, "feed: stopped");
  count(batch, bytes);
  return {};
}

void BatchPool::end_block(uint64_t block) {
  MutexLock lock(mutex_);
  if (block < block_) return;
  ended_.insert(block);
  while (ended_.erase(block_) != 0) ++block_;
  room_.notify_all();
}

bool BatchPool::blocks_ended(uint64_t count) {
  MutexLock lock(mutex_);
  return block_ >= count;
}

void BatchPool::add(Batch& batch, uint64_t bytes) {
  MutexLock lock(mutex_);
  count(batch, bytes);
}

void BatchPool::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  room_.notify_all();
}

std::optional<BatchPool::Shortage> BatchPool::shortage() {
  MutexLock lock(mutex_);
  return shortage_;
}

uint64_t BatchPool::bytes_peak() {
  MutexLock lock(mutex_);
  return bytes_peak_;
}

}  // namespace forebay::feed
