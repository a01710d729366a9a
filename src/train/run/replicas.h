// The interface through which a run reaches the processes that train the same model. LoneProcess is
// for a run in a single process; for several, src/bind/torch/train_module.cc calls forebay.sync.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "train/learner/flat_numbers.h"

namespace forebay::train {

using base::Result;
using base::Status;

// Only the training thread calls it. Every process makes the same calls in the same order, except
// for the calls that say otherwise. Errors are kUnavailable; they name the process that is gone, or
// say what else is wrong.
class Replicas {
 public:
  virtual ~Replicas() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t processes() const = 0;
  // The number of these processes on this machine.
  virtual uint32_t processes_here() const = 0;
  // Whether weights are exchanged; if not, begin() gets no numbers.
  virtual bool exchanges() const = 0;
  // Whether this process validates, prints and writes for all processes.
  bool is_first() const { return rank() == 0; }

  // Returns the rank that has made the most steps, each process passing its own number; the lowest
  // such rank if several are equal.
  virtual Result<uint32_t> newest_rank(uint64_t steps) = 0;
  // Returns, in every process, the bytes that process `rank` passes as `own`; the bytes that other
  // processes pass are ignored.
  virtual Result<base::ByteVector> from_rank(uint32_t rank, const base::ByteVector& own) = 0;
  // Copies the weights of rank 0 to all processes. Steps may follow.
  virtual Status begin(const FlatNumbers& numbers) = 0;
  // Called when the gradient is complete. Replaces it by the gradient that the optimiser is to
  // apply.
  virtual Status before_update() = 0;
  // Called when the optimiser has applied the gradient.
  virtual Status after_update() = 0;
  // Replaces the weights, until show_own(), by the mean of all processes' weights as far as this
  // process knows it. A single process may call the two. No step is made in between.
  virtual Status show_averaged() = 0;
  virtual Status show_own() = 0;
  // Called after the last step. Then the weights are the mean of all processes' weights, unless a
  // process is gone.
  virtual Status end() = 0;

  // How much was exchanged so far, as a text for a progress line and as a JSON object.
  virtual std::string describe() const = 0;
  virtual std::string stats() const = 0;
};

// A process that trains alone.
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
