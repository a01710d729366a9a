// Drives a strategy in one training process: the training thread, two threads for each peer and two
// for collectives meet here. What moves the bytes is the caller's (Python's process groups), and so
// are the threads: each calls one of the functions below in a loop.
//
//   training:  (check_gradient) before_update ── optimiser's step ── after_update
//   sender:    next ── send message ── next …            (one for each peer)
//   receiver:  receive message ── received …             (one for each peer)
//   reducers:  next_reduction ── begin all-reduce …      (one)
//              wait for the oldest ── reduced …          (one)
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "io/clock.h"
#include "train/sync/strategy.h"

namespace forebay::train {

struct LinkStats {
  uint64_t sent_bytes = 0;      // of messages, with their headers
  uint64_t received_bytes = 0;  // the same
  uint64_t refused = 0;         // messages that were damaged or not finite
  double bytes_per_s = 0;       // while something was on its way; 0 before the first measurement
  uint32_t partitions = 1;
  Encoding encoding = Encoding::kFloat32;
  std::string lost;  // why the peer is gone; empty while it is there
};

// Slices by the number of their sender's steps that they stand for: up to 1, 2, 4, 8, …
using StalenessHistogram = std::array<uint64_t, 20>;

struct ExchangeStats {
  uint64_t steps = 0;
  double steps_per_s = 0;        // 0 before the first measurement
  double waited_s = 0;           // the training thread, for peers; a present wait is part of it
  std::vector<LinkStats> links;  // by rank; that of this process stays empty
  uint64_t reduced_bytes = 0;    // of numbers that were summed over all processes
  double reducing_s = 0;         // while such a sum was on its way
  StalenessHistogram staleness = {};
  std::string trouble;  // the last message that was refused, and why; empty for none
};

// Any thread may call anything, but each peer has one sender and one receiver.
class Exchange {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t processes = 1;
    // How long a step waits for peers at most, where the strategy waits at all.
    double wait_s_max = 30;
  };
  // `gradient` and `weights` are the model's, of the same size, and live longer than this. For a
  // strategy that does not exchange gradients, `gradient` may be empty. The strategy is for the
  // same rank, processes and size.
  Exchange(std::unique_ptr<Strategy> strategy, const io::Clock& clock, const Options& options,
           std::span<float> gradient, std::span<float> weights);

  // How the optimiser applies gradients (Strategy::set_rules).
  void set_rules(std::vector<SgdRule> rules);
  // The gradient of these numbers is there (only for strategies with reductions).
  void gradient_ready(Range range);
  // Where the gradient is not in `gradient`, this sees each part of it, before before_update().
  // Errors: kInvalid for one that is not finite.
  Status check_gradient(std::span<const float> part) const;
  // The gradient is complete: leaves in its place what the optimiser shall apply. Errors: the
  // strategy's; fail()'s; kTimedOut when peers did not come in time and the strategy cannot go on
  // without them.
  Status before_update();
  // Whether after_update() looks at the weights in this step.
  bool wants_weights() const;
  // Errors: the same but the strategy's.
  Status after_update();

  // Waits for the next message to `peer`, and gives its bytes, which stay as they are until the
  // call after the next one for this peer; none when there will be none.
  base::Bytes next(uint32_t peer);

  // No message has more bytes.
  size_t message_bytes_max() const;
  // A message has arrived; more bytes may follow it. Returns false when it was the peer's last one.
  // Errors: kCorrupt; then nothing more can be read from this peer.
  Result<bool> received(uint32_t peer, base::Bytes message);
  // The peer cannot be reached any more.
  void lost(uint32_t peer, const std::string& why);

  // Waits for the next numbers to be summed over all processes; none when there will be none.
  std::span<float> next_reduction();
  // The oldest of these have been summed.
  void reduced();
  // No step follows: applies what has arrived since the last one.
  void settle();
  // After settle(): frees what the strategy holds, which may be many times the model. Only stats()
  // is of use from here on.
  void release();
  // Collectives do not work any more: before_update() returns this.
  void fail(const Status& why);

  // This process trains no more. Sums that are due are still taken. Each peer gets what is due to
  // it, and answers until it has said the same.
  void close();

  // Rates leave out the time until the end of the next step, because something else kept the
  // training thread from it. A new exchange begins in the same way.
  void restart_measuring();

  ExchangeStats stats() const;

  // Strategy::kept(), copied, and taken from a checkpoint. Errors: kInvalid for other names or
  // sizes.
  std::vector<std::pair<std::string, std::vector<float>>> kept() const;
  Status restore(const std::string& name, std::span<const float> floats);
  // Strategy::shared_weights(), copied.
  std::vector<float> shared_weights() const;
  // Strategy::averaged(), of the present weights.
  std::vector<float> averaged_weights() const;

 private:
  struct OnItsWay {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  // What one thread alone uses is not under the mutex.
  struct Link {
    base::CondVar changed;
    bool is_closed = false;     // no message follows
    bool has_said_bye = false;  // this process
    bool was_said_bye = false;  // by the peer
    bool has_ended = false;     // the peer has sent its last message
    uint64_t taken = 0;         // the number of the last slice that has arrived
    uint64_t told = 0;          // the same as the peer knows it
    std::deque<OnItsWay> on_its_way;
    uint64_t number = 0;  // of the last slice
    // Time with something on its way, and the bytes that arrived in it, since the last measurement.
    int64_t busy_since_ns = 0;
    int64_t busy_ns = 0;
    uint64_t busy_bytes = 0;
    LinkStats stats;
    std::array<base::ByteVector, 2> messages;  // the sender's, in turn
    uint64_t messages_made = 0;
    std::vector<float> arrived;  // the receiver's
  };

  bool fill(uint32_t peer, Outgoing* out) REQUIRES(mutex_);
  base::Bytes pack(Link& link, Outgoing out);
  Result<MessageHeader> unpack(uint32_t peer, base::Bytes* message) const;
  void confirm(Link& link, uint64_t taken) REQUIRES(mutex_);
  Status wait_for_peers() REQUIRES(mutex_);
  void measure() REQUIRES(mutex_);
  void measure(uint32_t peer, int64_t ns) REQUIRES(mutex_);
  void count_busy(Link& link) REQUIRES(mutex_);
  uint64_t message_floats(uint32_t peer) const REQUIRES(mutex_);

  std::unique_ptr<Strategy> strategy_;
  const io::Clock& clock_;
  const Options options_;
  const std::span<float> gradient_;
  const std::span<float> weights_;

  mutable base::Mutex mutex_;
  base::CondVar training_changed_;
  base::CondVar reduction_due_;
  bool is_closing_ GUARDED_BY(mutex_) = false;
  Status failure_ GUARDED_BY(mutex_);
  ExchangeStats stats_ GUARDED_BY(mutex_);
  int64_t measured_ns_ GUARDED_BY(mutex_) = 0;
  uint64_t measured_steps_ GUARDED_BY(mutex_) = 0;
  int64_t waited_ns_ GUARDED_BY(mutex_) = 0;
  std::optional<int64_t> waiting_since_ns_ GUARDED_BY(mutex_);
  bool begins_to_measure_ GUARDED_BY(mutex_) = true;
  std::deque<uint64_t> in_sum_ GUARDED_BY(mutex_);  // bytes
  int64_t in_sum_since_ns_ GUARDED_BY(mutex_) = 0;
  std::vector<Link> links_;
};

}  // namespace forebay::train
