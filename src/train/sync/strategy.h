// What a synchronisation strategy is told and what it answers. A strategy holds the numbers of one
// training process and decides what goes to whom; it has no threads, clocks or sockets. In a job
// exchange.h drives it, in tests the simulator does.
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
  base::ByteVector bytes;  // the strategy appends the numbers' to what is there already
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

// Numbers of a strategy that a checkpoint keeps beside the weights.
struct Kept {
  std::string name;
  std::span<float> floats;  // of the size of the model
  Range own;                // what this process has of them; the rest is zero
};

// One thread at a time calls it.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // How the optimiser applies gradients, for all numbers in their order. Only for strategies that
  // do so in its place; the rules hold for gradients that come after this.
  virtual void set_rules(std::vector<SgdRule> /*rules*/) {}
  // The gradient of these numbers is there; the whole gradient follows piece by piece.
  virtual void gradient_ready(std::span<float> /*gradient*/, Range /*range*/) {}
  // The gradient of the step is complete.
  virtual void gradient_done(std::span<float> /*gradient*/) {}
  // Whether the training thread waits, after gradient_done() and before after_update().
  virtual bool must_wait() const { return false; }
  // It has waited for as long as it may. Returns whether the step can go on all the same.
  virtual bool timed_out() { return false; }
  // Turns the step's own gradient into the one that the optimiser applies. Strategies that exchange
  // something else may get none. Errors: kInvalid for a gradient that must not be sent, because it
  // is not finite.
  virtual Status before_update(std::span<float> gradient) = 0;
  // Whether after_update() looks at the weights in this step.
  virtual bool wants_weights() const { return true; }
  // The optimiser has applied it.
  virtual void after_update(std::span<float> /*weights*/) {}

  // The link to `peer` is free: fills in the next message, of at most `floats_max` numbers, or
  // returns false when there is nothing to send.
  virtual bool next(uint32_t /*peer*/, uint64_t /*floats_max*/, Outgoing* /*out*/) { return false; }
  // A message has arrived; its sender is another process, its range lies inside the model and its
  // numbers are finite. Errors: kCorrupt for one that this strategy does not send.
  virtual Status received(const MessageHeader& header, std::span<const float> floats);
  // A message of this header has arrived whose numbers are damaged or not finite. Its sender counts
  // it as sent, and may wait for an answer.
  virtual void refused(const MessageHeader& /*header*/) {}
  // The peer is gone for good. Errors: kUnavailable when nothing works without it.
  virtual Status lost(uint32_t peer) = 0;
  // How many float32 numbers the link to `peer` carries in the time of one step.
  virtual void measured(uint32_t /*peer*/, double /*floats_per_step*/) {}
  // How slices for this peer are written.
  virtual Encoding encoding(uint32_t /*peer*/) const { return Encoding::kFloat32; }

  // No message will come or go any more: applies what has arrived since the last step.
  virtual void settle(std::span<float> /*weights*/) {}

  // The next numbers to be summed over all processes, in an order that is the same in all of them;
  // none when none are due. They stay in their place until the sum has taken it.
  virtual std::span<float> next_reduction() { return {}; }
  // The oldest of these has been summed.
  virtual void reduced() {}

  // What a checkpoint keeps. When one is read, the numbers are written before the first step.
  virtual std::vector<Kept> kept() { return {}; }

  // The weights from which each process has gone on by itself: the same in all processes that end
  // at the same step. Empty where a strategy has none.
  virtual std::span<const float> shared_weights() const { return {}; }
  // The mean of all processes' weights, as far as this one knows it, where its own are `weights`.
  // Empty where a strategy knows nothing better than those.
  virtual std::vector<float> averaged(std::span<const float> /*weights*/) const {
    return {shared_weights().begin(), shared_weights().end()};
  }

  // Into how many parts the model is cut for this peer, so that one a step fits the link.
  virtual uint32_t partitions(uint32_t /*peer*/) const { return 1; }

 protected:
  // What received() answers to such a message.
  static Status unexpected();
};

}  // namespace forebay::train
