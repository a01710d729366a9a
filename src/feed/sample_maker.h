// One sample's way into its slot of a batch: its bytes out of the window, checked, prepared; a bad
// one replaced.
#pragma once

#include "feed/window.h"

namespace forebay::feed {

// What is written for a slot of a batch.
struct Slot {
  uint8_t* image = nullptr;
  int32_t* label = nullptr;
  uint64_t* sample = nullptr;
  uint8_t* valid = nullptr;
};

// One thread at a time. What it is given outlives it.
class SampleMaker {
 public:
  SampleMaker(const io::FileSystem& fs, const store::Dataset& dataset, const FeedOptions& options);

  // Fills the slot of `position`, which is one of this rank's. `bad` is set when the position's own
  // sample could not be used. Errors: kIo and others that are no single sample's; kCorrupt when no
  // good sample takes the place; kCancelled.
  Status make(const EpochPlan& plan, Window& window, uint64_t position, const Slot& slot,
              std::optional<BadSample>* bad);
  // A slot without a sample.
  void leave_empty(const Slot& slot, uint64_t sample) const;

  uint64_t bytes_read() const { return bytes_read_; }

 private:
  Status make_own(const Load& load, const Order::Place& place, const Slot& slot);
  Status prepare(const store::Location& location, base::Bytes file, uint64_t sample,
                 const Slot& slot);
  Result<base::Bytes> read(const store::Location& location);
  Status replace(const EpochPlan& plan, uint64_t position, const Slot& slot);
  BadSample describe(uint64_t sample, const Status& reason) const;

  const io::FileSystem& fs_;
  const store::Dataset& dataset_;
  const FeedOptions& options_;
  image::Preparer preparer_;
  base::Random random_;  // of the position that is filled
  base::ByteVector file_;
  uint64_t bytes_read_ = 0;
};

}  // namespace forebay::feed
