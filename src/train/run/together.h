// What joins a run to those of other processes that train the same model; forebay.sync implements
// it (src/bind/torch/train_module.cc).
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "train/learner/flat_numbers.h"

namespace forebay::train {

using base::Result;
using base::Status;

// Only the training thread calls it. Every process makes the same calls in the same order. Errors
// are kUnavailable and say which process is gone, or what else is wrong.
class Together {
 public:
  virtual ~Together() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t processes() const = 0;
  // How many of them this machine has.
  virtual uint32_t processes_here() const = 0;

  // Returns the rank whose `steps` are the most; the lowest such rank when several are equal.
  virtual Result<uint32_t> newest_rank(uint64_t steps) = 0;
  // Returns in every process the bytes that `rank` passes as `own`; those of others are ignored.
  virtual Result<base::ByteVector> from_rank(uint32_t rank, const base::ByteVector& own) = 0;
  // All processes get the weights of rank 0, and steps may follow.
  virtual Status begin(const FlatNumbers& numbers) = 0;
  // The gradient is complete: leaves in its place what the optimiser shall apply.
  virtual Status before_update() = 0;
  // The optimiser has applied it.
  virtual Status after_update() = 0;
  // Between these two the weights are the mean of all processes' as far as this one knows it; no
  // step is made meanwhile. Only this process takes part.
  virtual Status show_averaged() = 0;
  virtual Status show_own() = 0;
  // No step follows; the weights are the mean of all processes' then, unless one of them is gone.
  virtual Status end() = 0;

  // What was exchanged so far: for a progress line, and as a JSON object.
  virtual std::string describe() const = 0;
  virtual std::string stats() const = 0;
};

// Whether a process is alone or rank 0, which alone measures, says and writes something.
inline bool is_first(const Together* together) {
  return together == nullptr || together->rank() == 0;
}

}  // namespace forebay::train
