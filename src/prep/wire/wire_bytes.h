// Batches of normalised numbers cross the network as bytes, from which the host makes the numbers.
// Numbers of 32 bits would be four times as many bytes, and making them takes less time than
// receiving them.
#pragma once

#include <memory>

#include "feed/batch/options.h"
#include "prep/wire/received_memory.h"

namespace forebay::prep {

// The options by which a prep server makes the batches of a feed with these options. They ask for
// bytes instead of numbers, if the host can make the same numbers from the bytes: not if a later
// step, such as erasing, works on the numbers.
feed::FeedOptions wire_options(const feed::FeedOptions& options);

// Makes the numbers from the bytes. Any thread may call anything.
class FromBytes {
 public:
  // Takes the memory for the numbers from `memory`.
  FromBytes(const feed::FeedOptions& options, std::shared_ptr<ReceivedMemory> memory);

  uint64_t tensor_bytes(uint64_t samples) const { return samples * sample_bytes_; }
  // Makes the tensor of a batch from the tensor that wire_options() gives, `bytes`, after which
  // base::kPlanarPadding more bytes must be readable. Samples that are not `valid` become zeros.
  // Throws std::bad_alloc.
  std::shared_ptr<uint8_t> make(const uint8_t* bytes, const std::vector<uint8_t>& valid) const;

 private:
  const image::TensorWriter writer_;
  const image::Size size_;
  const uint64_t sample_bytes_;
  const std::shared_ptr<ReceivedMemory> memory_;
};

}  // namespace forebay::prep
