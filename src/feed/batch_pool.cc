#include "feed/batch_pool.h"

#include <new>

namespace forebay::feed {

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
  batch->size = shape_.size;
  if (shape_.whole) batch->whole.resize(shape_.samples);
  if (shape_.files) batch->files.resize(shape_.samples);
  batch->labels.resize(shape_.samples);
  batch->samples.resize(shape_.samples);
  batch->valid.resize(shape_.samples);
  return batch;
}

std::shared_ptr<Batch> BatchPool::take(uint64_t bytes_max) {
  std::unique_ptr<Pooled> batch;
  {
    MutexLock lock(mutex_);
    if ((in_use_ + 1) * shape_.bytes() > bytes_max) return nullptr;
    ++in_use_;
    if (!free_.empty()) {
      batch = std::move(free_.back());
      free_.pop_back();
    }
  }
  try {
    if (batch == nullptr) batch = allocate();
  } catch (const std::bad_alloc&) {  // as where it gave none
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

void BatchPool::give_back(std::unique_ptr<Pooled> batch) {
  MutexLock lock(mutex_);
  --in_use_;
  if (free_.size() < kept_max_) free_.push_back(std::move(batch));
}

}  // namespace forebay::feed
