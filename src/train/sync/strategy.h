// The interface of synchronisation strategies. A strategy holds the numbers of one training process
// and decides what is sent to whom; it has no threads, clocks or sockets. In a job exchange.h
// drives it, in tests the simulator.
//
//   training thread:   gradient_done ─ (wait) ─ before_update ─ optimiser ─ (wait) ─ after_update
//   link to a peer:    next (when the link is free), received
//   collective thread: next_reduction, reduced
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/sync/message_header.h"

namespace forebay::train {

// A message for one peer; the driver fills in sender, number and checksum.
struct Outgoing {
  MessageHeader header;
  base::ByteVector bytes;  // the strategy appends the encoded numbers
};

// A range of the model, as positions in the flat list of all its learned numbers.
struct Range {
  uint64_t begin = 0;
  uint64_t count = 0;
  bool operator==(const Range&) const = default;
};

// How torch.optim.SGD applies the gradients of a range.
struct SgdRule {
  Range range;
  double rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// Numbers of a strategy that a checkpoint stores in addition to the weights.
struct Kept {
  std::string name;
  std::span<float> floats;  // as many as the model has
  Range own;                // the range that this process has; the rest is zero
};

// One thread at a time calls it.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Says how the optimiser applies gradients, for all numbers in their order. For strategies that
  // apply gradients in its place; the rules hold for gradients that come later.
  virtual void set_rules(std::vector<SgdRule> /*rules*/) {}
  // Says that the gradient of these numbers is ready; the other numbers follow.
  virtual void gradient_ready(std::span<float> /*gradient*/, Range /*range*/) {}
  // Says that the gradient of the step is complete.
  virtual void gradient_done(std::span<float> /*gradient*/) {}
  // Whether the training thread must wait. Asked before before_update() and before after_update().
  virtual bool must_wait() const { return false; }
  // Whether must_wait() waits for a message of this peer.
  virtual bool waits_for(uint32_t /*peer*/) const { return false; }
  // Says that the training thread has waited for the longest time. Returns whether the step can
  // continue anyway.
  virtual bool timed_out() { return false; }
  // Replaces the step's own gradient by the one that the optimiser is to apply. The gradient may be
  // empty for strategies that do not exchange gradients. Errors: kInvalid for a gradient that is
  // not finite and so must not be sent.
  virtual Status before_update(std::span<float> gradient) = 0;
  // Whether after_update() will read the weights in this step.
  virtual bool wants_weights() const { return true; }
  // Called when the optimiser has updated the weights.
  virtual void after_update(std::span<float> /*weights*/) {}

  // Called when the link to `peer` is free. Fills in the next message, of at most `floats_max`
  // numbers; returns false when there is nothing to send.
  virtual bool next(uint32_t /*peer*/, uint64_t /*floats_max*/, Outgoing* /*out*/) { return false; }
  // Handles a message from another process; its range lies inside the model and its numbers are
  // finite. Errors: kCorrupt for a message that this strategy never sends.
  virtual Status received(const MessageHeader& /*header*/, std::span<const float> /*floats*/) {
    return unexpected();
  }
  // Handles a message whose numbers are damaged or not finite. Its sender counts it as sent, and
  // may wait for an answer.
  virtual void refused(const MessageHeader& /*header*/) {}
  // Says that the peer is gone for good. Errors: kUnavailable if the job cannot continue without
  // it.
  virtual Status lost(uint32_t peer) = 0;
  // Says how many float32 numbers the link to `peer` carries in the time of one step.
  virtual void measured(uint32_t /*peer*/, double /*floats_per_step*/) {}
  // The encoding of slices for this peer.
  virtual Encoding encoding(uint32_t /*peer*/) const { return Encoding::kFloat32; }

  // Called after the last message: applies what has arrived since the last step.
  virtual void settle(std::span<float> /*weights*/) {}

  // Returns the next numbers to sum over all processes, in the same order in all processes; empty
  // if none are due. The sum replaces the numbers, which stay in place until reduced().
  virtual std::span<float> next_reduction() { return {}; }
  // For a sum whose numbers are sent as Encoding::kInt8: where to write what the rounding leaves
  // out of them. Asked after next_reduction(); empty if the numbers are sent as they are.
  virtual std::span<float> left_out() { return {}; }
  // Says that the oldest of these sums is complete.
  virtual void reduced() {}

  // The numbers that a checkpoint stores. A restored job writes them here before the first step.
  virtual std::vector<Kept> kept() { return {}; }

  // The weights from which all processes have trained on separately: the same in all processes that
  // end at the same step. Empty if the strategy has none.
  virtual std::span<const float> shared_weights() const { return {}; }
  // Returns the mean of all processes' weights as far as this process, whose own are `weights`,
  // knows it. Empty if the strategy knows nothing better than `weights`.
  virtual std::vector<float> averaged(std::span<const float> /*weights*/) const {
    return {shared_weights().begin(), shared_weights().end()};
  }

  // The number of partitions of the model for this peer: one a step fits the link.
  virtual uint32_t partitions(uint32_t /*peer*/) const { return 1; }

 protected:
  // The error of received() for a message that the strategy never sends.
  static Status unexpected() { return {base::Code::kCorrupt, "does not belong to this strategy"}; }
};

}  // namespace forebay::train
