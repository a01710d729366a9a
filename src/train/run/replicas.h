// The processes that train the same model, as a run sees them. A lone process is one kind of them;
// forebay.sync implements the other (src/bind/torch/train_module.cc).
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
// are kUnavailable and name the process that is gone, or say what else is wrong.
class Replicas {
 public:
  virtual ~Replicas() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t processes() const = 0;
  // The number of these processes on this machine.
  virtual uint32_t processes_here() const = 0;
  // Whether weights are exchanged. Then begin() and the calls around an update get flat numbers.
  virtual bool exchanges() const = 0;
  // Whether this process measures, prints and writes for all of them.
  bool is_first() const { return rank() == 0; }

  // Returns the rank whose `steps` are the most; the lowest such rank when several are equal.
  virtual Result<uint32_t> newest_rank(uint64_t steps) = 0;
  // Returns in every process the bytes that `rank` passes as `own`; those of others are ignored.
  virtual Result<base::ByteVector> from_rank(uint32_t rank, const base::ByteVector& own) = 0;
  // All processes get the weights of rank 0, and steps may follow.
  virtual Status begin(const FlatNumbers& numbers) = 0;
  // The gradient is complete: leaves in its place what the optimiser shall apply.
  virtual Status before_update() = 0;
  // The optimiser has applied the gradient.
  virtual Status after_update() = 0;
  // Replaces the weights by the mean of all processes' weights as far as this process knows it,
  // until show_own(). No step is made meanwhile. Only this process takes part.
  virtual Status show_averaged() = 0;
  virtual Status show_own() = 0;
  // No step follows. Afterwards the weights are the mean of all processes' weights, unless a
  // process is gone.
  virtual Status end() = 0;

  // What was exchanged so far: for a progress line, and as a JSON object.
  virtual std::string describe() const = 0;
  virtual std::string stats() const = 0;
};

// A process that trains by itself.
class LoneProcess final : public Replicas {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t processes() const override { return 1; }
  uint32_t processes_here() const override { return 1; }
  bool exchanges() const override { return false; }
  Result<uint32_t> newest_rank(uint64_t /*steps*/) override { return 0; }
  Result<base::ByteVector> from_rank(uint32_t /*rank*/, const base::ByteVector& own) override {
    return own;
  }
  Status begin(const FlatNumbers& /*numbers*/) override { return {}; }
  Status before_update() override { return {}; }
  Status after_update() override { return {}; }
  Status show_averaged() override { return {}; }
  Status show_own() override { return {}; }
  Status end() override { return {}; }
  std::string describe() const override { return {}; }
  std::string stats() const override { return "{}"; }
};

}  // namespace forebay::train
