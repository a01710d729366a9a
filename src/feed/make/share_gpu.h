// Chooses which blocks of samples a GPU decodes, if the options leave it to the feed: just so many
// that the consumer does not wait, because training needs the GPU's time too.
#pragma once

#include <algorithm>
#include <atomic>

#include "feed/batch/options.h"

namespace forebay::feed {

// The consumer calls asked(), one call at a time; any thread may call the rest.
class GpuShare {
 public:
  explicit GpuShare(Decode decode)
      : fixed_(decode != Decode::kAuto), share_(decode == Decode::kGpu ? kWhole : 0) {}

  // Whether the next block is decoded on the GPU. The GPU's blocks are spread evenly.
  bool next_is_on_gpu() {
    const uint64_t share = share_;
    const uint64_t number = given_++;
    return (number + 1) * share / kWhole != number * share / kWhole;
  }
  // Called when the consumer asks for a batch, which was ready or not. The GPU's share grows
  // whenever the consumer has to wait, and shrinks a little when many batches in a row were ready.
  void asked(bool ready) {
    if (fixed_) return;
    ready_ = ready ? ready_ + 1 : 0;
    if (!ready) {
      share_ = std::min(kWhole, share_ + kMore);
    } else if (ready_ % kReadyForLess == 0 && share_ > 0) {
      share_ = share_ - 1;
    }
  }

 private:
  static constexpr uint64_t kWhole = 64;
  static constexpr uint64_t kMore = 4;
  static constexpr uint64_t kReadyForLess = 8;  // batches

  const bool fixed_;
  std::atomic<uint64_t> share_;
  std::atomic<uint64_t> given_ = 0;
  uint64_t ready_ = 0;  // batches in a row that were ready
};

}  // namespace forebay::feed
