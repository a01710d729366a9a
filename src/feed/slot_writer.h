// From a sample's file to what its slot of a batch holds of it: a tensor, pixels, the file itself.
#pragma once

#include <optional>

#include "feed/feed.h"
#include "image/prepare_gpu.h"

namespace forebay::feed {

// What is written for a slot of a batch.
struct Slot {
  uint8_t* image = nullptr;          // Images::kTensor; in FeedOptions::device's memory
  base::Pixels* whole = nullptr;     // Images::kWhole
  base::ByteVector* file = nullptr;  // FeedOptions::files
  int32_t* label = nullptr;
  uint64_t* sample = nullptr;
  uint8_t* valid = nullptr;
};

struct SlotRequest {
  base::Bytes file;
  base::Random random;
  Slot slot;
  uint64_t bytes = 0;  // SlotWriter::bytes_of()
  Status status = {};  // afterwards; on an error nothing in the slot may be used
};

// Keeps its buffers between samples. One thread at a time.
class SlotWriter {
 public:
  explicit SlotWriter(const FeedOptions& options);

  // What a sample's image of its own size and its file will take in a batch; 0 where a batch has
  // neither.
  uint64_t bytes_of(base::Bytes file) const;
  // Images and files; labels and what else is known without the file are the caller's. Errors as
  // image::Preparer::prepare. Small images are faster several at once. `on_gpu`: where there is
  // one, it makes the tensors.
  void write(std::span<SlotRequest> requests, bool on_gpu);
  // A slot without a sample; `sample` is kept. Errors: the device's.
  Status clear(const Slot& slot, uint64_t sample);

  // Of a slot's tensor; 0 when there is none.
  size_t sample_bytes() const { return sample_bytes_; }
  uint64_t made_on_gpu() const { return gpu_ ? gpu_->made_on_gpu() : 0; }

 private:
  void write_tensors(std::span<SlotRequest> requests, bool on_gpu);
  void write_whole(std::span<SlotRequest> requests);

  const Images images_;
  const bool files_;
  // One of them, for tensors.
  std::optional<image::Preparer> preparer_;
  std::optional<image::GpuPreparer> gpu_;
  std::vector<image::PrepareRequest> prepares_;
  image::ImageDecoder decoder_;
  std::vector<image::DecodeRequest> decodes_;
  std::vector<size_t> numbers_;  // of decodes_, among all requests
  size_t sample_bytes_ = 0;
};

}  // namespace forebay::feed
