// Drives a strategy in one training process. The training thread meets two threads for each peer
// here, or one for sums over all processes. Links (links.h), or a test, has these threads, which
// call the functions below in loops, and moves the bytes.
//
//   training:  (check_gradient) before_update ── optimiser's step ── after_update
//   sender:    next ── send message ── next …            (one for each peer)
//   receiver:  receive message ── received …             (one for each peer)
//   sums:      next_reduction ── sum ── reduced …        (one)
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "io/clock.h"
#include "train/sync/strategy.h"

namespace forebay::train {

struct LinkStats {
  uint64_t sent_bytes = 0;      // of messages, with their headers
  uint64_t received_bytes = 0;  // of messages, with their headers
  uint64_t refused = 0;         // messages that were damaged, not finite or unexpected
  double bytes_per_s = 0;       // while a message was in flight; 0 before the first measurement
  uint32_t partitions = 1;
  Encoding encoding = Encoding::kFloat32;
  std::string lost;  // why the peer is gone; empty while it is not
};

// Counts slices by the number of the sender's steps whose values they sum: up to 1, 2, 4, 8, …
using StalenessHistogram = std::array<uint64_t, 20>;

struct ExchangeStats {
  uint64_t steps = 0;
  double steps_per_s = 0;        // 0 before the first measurement
  double waited_s = 0;           // how long the training thread has waited for peers, up to now
  std::vector<LinkStats> links;  // by rank; the entry of this process stays empty
  uint64_t reduced_bytes = 0;    // of numbers that were summed over all processes, as they are sent
  double reducing_s = 0;         // how long such sums were in flight
  StalenessHistogram staleness = {};
  std::string trouble;  // the last message that was refused, and why; empty for none
};

// Any thread may call anything, but each peer has one sender and one receiver.
class Exchange {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t processes = 1;
    // The longest time that a step waits for peers, if the strategy waits.
    double wait_s_max = 30;
    // Called by the training thread about once a second while a step waits, with the time that it
    // has waited. An error ends the step.
    std::function<Status(double waited_s)> while_waiting = {};
    // How many steps the job has made before this exchange. Errors count them, too.
    uint64_t first_step = 0;
  };
  // `gradient` and `weights` belong to the model, have the same size, and must outlive the
  // exchange. For a strategy that does not exchange gradients, `gradient` may be empty. The
  // strategy must be for the same rank, processes and size.
  Exchange(std::unique_ptr<Strategy> strategy, const io::Clock& clock, const Options& options,
           std::span<float> gradient, std::span<float> weights);

  // How the optimiser applies gradients (Strategy::set_rules).
  void set_rules(std::vector<SgdRule> rules);
  // Says that the gradient of these numbers is ready (only for strategies with reductions).
  void gradient_ready(Range range);
  // Checks a part of a gradient that is not in `gradient`. Called for each part before
  // before_update(). Errors: kInvalid if it is not finite.
  Status check_gradient(std::span<const float> part) const;
  // Called when the gradient is complete. Replaces it by the gradient that the optimiser is to
  // apply. Errors: the strategy's; the one given to fail(); kTimedOut when peers did not answer in
  // time and the strategy cannot continue without them.
  Status before_update();
  // Whether after_update() will read the weights in this step.
  bool wants_weights() const;
  // Called when the optimiser has updated the weights. Errors: those of before_update() except the
  // strategy's.
  Status after_update();

  // Waits for the next message to `peer`, and returns its bytes; empty if no message follows. The
  // bytes stay valid until the second call after this one for the same peer.
  base::Bytes next(uint32_t peer);

  // The most bytes that a message can have.
  size_t message_bytes_max() const;
  // Handles a message that has arrived; bytes after its end are ignored. Returns false for the
  // peer's last message. Errors: kCorrupt; then nothing more can be read from this peer.
  Result<bool> received(uint32_t peer, base::Bytes message);
  // Says that the peer cannot be reached any more.
  void lost(uint32_t peer, const std::string& why);

  // Waits for the next numbers to sum over all processes; empty if no sum follows.
  std::span<float> next_reduction();
  // After close(): makes steps that learn nothing until a sum is due, and returns its numbers. For
  // sums that other processes begin, in which this process must take part. Empty if the strategy
  // never sums anything. The training thread must not use the gradient or the weights meanwhile.
  std::span<float> next_empty_reduction();
  // Where to write what rounding leaves out of these numbers (Strategy::left_out).
  std::span<float> left_out();
  // Says that the oldest of these sums is complete.
  void reduced();
  // The peers for which a step of the training thread must wait now, if the strategy sends
  // messages; after close(), those that have not ended.
  std::vector<uint32_t> waits_for() const;
  // Called after the last step: applies what has arrived since.
  void settle();
  // Called after settle(): frees the strategy's memory, which may be many times the model's. From
  // then on only stats() is useful.
  void release();
  // Says that sums over all processes fail: before_update() and after_update() return this error
  // from now on.
  void fail(const Status& why);

  // Called after the last step of this process. Sums that are due are still taken. Peers still get
  // the messages that are due and answers to theirs, until they have closed, too.
  void close();

  // Leaves the time until the end of the next step out of all rates, because something else than
  // training took it. A new exchange begins in this state.
  void restart_measuring();

  ExchangeStats stats() const;

  // Returns copies of Strategy::kept() for a checkpoint.
  std::vector<std::pair<std::string, std::vector<float>>> kept() const;
  // Restores such numbers from a checkpoint. Errors: kInvalid for an unknown name or another size.
  Status restore(const std::string& name, std::span<const float> floats);
  // Returns a copy of Strategy::shared_weights().
  std::vector<float> shared_weights() const;
  // Returns Strategy::averaged() for the present weights.
  std::vector<float> averaged_weights() const;

 private:
  // A slice or answer that the peer has not confirmed yet.
  struct OnItsWay {
    uint64_t number = 0;
    uint64_t bytes = 0;
  };
  // Members that only one thread uses are not guarded by the mutex.
  struct Link {
    base::CondVar changed;
    bool is_closed = false;     // this process has sent its last message, or the peer is lost
    bool has_said_bye = false;  // this process has sent kBye
    bool was_said_bye = false;  // the peer has sent kBye
    bool has_ended = false;     // the peer has sent its last message
    uint64_t taken = 0;         // the number of the last slice or answer that has arrived
    uint64_t told = 0;          // the value of `taken` that the peer was told
    std::deque<OnItsWay> on_its_way;
    uint64_t number = 0;  // the number of the last slice or answer that was sent
    // Since the last measurement: the time with slices in flight, and the bytes that were
    // confirmed.
    int64_t busy_since_ns = 0;
    int64_t busy_ns = 0;
    uint64_t busy_bytes = 0;
    LinkStats stats;
    std::array<base::ByteVector, 2> messages;  // the sender's buffers, used in turn
    uint64_t messages_made = 0;
    std::vector<float> arrived;  // the receiver's buffer
  };

  bool fill(uint32_t peer, Outgoing* out) REQUIRES(mutex_);
  base::Bytes pack(Link& link, Outgoing out);
  Result<MessageHeader> unpack(uint32_t peer, base::Bytes* message) const;
  void confirm(Link& link, uint64_t taken) REQUIRES(mutex_);
  Status wait_for_peers() REQUIRES(mutex_);
  std::span<float> begin_reduction() REQUIRES(mutex_);
  Status look_while_waiting(int64_t start_ns) REQUIRES(mutex_);
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
  std::deque<uint64_t> in_sum_ GUARDED_BY(mutex_);  // the bytes of each sum in flight
  int64_t in_sum_since_ns_ GUARDED_BY(mutex_) = 0;
  std::vector<Link> links_;
};

}  // namespace forebay::train
