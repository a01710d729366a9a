// What crosses the network of a batch of numbers: bytes, of which the host makes the numbers. Types
// of 32 bits take four times as much, and making them takes less time than receiving them.
#pragma once

#include <memory>

#include "feed/batch/options.h"
#include "prep/wire/received_memory.h"

namespace forebay::prep {

// The options by which a prep server makes the batches of a feed with these options. They differ
// only where the host can make the same numbers of the prep server's bytes: whatever is done to the
// numbers themselves, as erasing does, rules it out.
feed::FeedOptions wire_options(const feed::FeedOptions& options);

// Makes the numbers. Any thread may call it.
class FromBytes {
 public:
  // The numbers lie in memory of `memory`.
  FromBytes(const feed::FeedOptions& options, std::shared_ptr<ReceivedMemory> memory);

  uint64_t tensor_bytes() const { return samples_ * sample_bytes_; }
  // Makes the tensor of a batch. `bytes` are those of all its samples by wire_options(); some bytes
  // after them must be readable (base::kPlanarPadding). Samples that are not `valid` become zeros.
  // Throws std::bad_alloc.
  std::shared_ptr<uint8_t> make(const uint8_t* bytes, const std::vector<uint8_t>& valid) const;

 private:
  const image::TensorWriter writer_;
  const image::Size size_;
  const uint64_t samples_;
  const uint64_t sample_bytes_;
  const std::shared_ptr<ReceivedMemory> memory_;
};

}  // namespace forebay::prep
