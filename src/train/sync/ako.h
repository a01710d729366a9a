// Partial exchange between peers, after Ako (Watcharapichat and others, "Ako: decentralised deep
// learning with partial gradient exchange", SoCC 2016). The model is cut into p partitions for each
// peer. In each step a process sends each peer one partition: the sum of what it has accumulated
// since it last sent the peer this partition. So everything reaches each peer exactly once, at most
// p steps later.
//
// A process accumulates gradients, as in the publication, or updates: how far its own optimiser has
// moved the weights. Of a gradient each of the n processes applies 1/n, the others later than the
// sender. An update is applied as a whole by its own process, which then gives 1/n of it to each
// peer when it sends it and keeps 1/n. In the end all weights have moved by the mean of all
// updates. If a peer is lost, each process takes back what it has given the peer for steps that the
// peer has not made: nothing comes back for these.
#pragma once

#include <optional>
#include <vector>

#include "train/sync/partitions.h"
#include "train/sync/rounds.h"
#include "train/sync/strategy.h"

namespace forebay::train {

class Ako final : public Strategy {
 public:
  enum class Of { kGradients, kUpdates };
  struct Options {
    uint32_t rank = 0;
    uint32_t processes = 1;
    Of of = Of::kUpdates;
    // How many steps accumulated numbers may wait for a link before the training thread waits for
    // the link; 0 means no bound.
    uint64_t staleness = 0;
    // The least number of partitions, above 0.
    uint32_t partitions_least = 1;
    // What an encoding leaves out of a slice stays accumulated, and is sent later. None: chosen for
    // each link by its speed.
    std::optional<Encoding> encoding = Encoding::kFloat32;
  };
  // `weights` are the initial weights, the same in all processes. If a process's weights are others
  // at its first step, the difference counts as its first update (only with Of::kUpdates).
  Ako(const Options& options, std::span<const float> weights);

  bool must_wait() const override;
  bool waits_for(uint32_t peer) const override {
    return options_.staleness > 0 && is_late(links_[peer]) && !links_[peer].is_stuck;
  }
  // From now on does not wait for the links that are late, until they take a slice again.
  bool timed_out() override;
  // Adds the gradients that have arrived, and divides the sum by the number of processes that are
  // alive. So the learning rate means the same as with an all-reduce, which takes the mean. If
  // updates are exchanged, only checks the gradient.
  Status before_update(std::span<float> gradient) override;
  // Adds the updates that have arrived, and subtracts what was given to peers.
  void after_update(std::span<float> weights) override;
  void settle(std::span<float> weights) override;
  bool next(uint32_t peer, uint64_t floats_max, Outgoing* out) override;
  Status received(const MessageHeader& header, std::span<const float> floats) override;
  Status lost(uint32_t peer) override;
  void measured(uint32_t peer, double floats_per_step) override;
  Encoding encoding(uint32_t peer) const override { return links_[peer].encoding; }
  uint32_t partitions(uint32_t peer) const override { return links_[peer].partitions.count(); }
  // Own updates that were not sent yet count with 1/n, too.
  std::vector<float> averaged(std::span<const float> weights) const override;

 private:
  struct Link {
    Link(uint64_t floats, uint32_t partitions_least, uint64_t first)
        : partitions(floats, partitions_least), rounds({.begin = 0, .count = floats}, first) {}
    bool is_gone = false;    // the peer is lost, or is this process itself
    uint64_t peer_step = 0;  // the peer's step when it sent its last slice
    bool is_stuck = false;   // the link is late, and the training thread does not wait for it
    Encoding encoding = Encoding::kFloat32;
    Partitions partitions;
    Rounds rounds;                // the range to send next
    std::vector<float> sent_sum;  // for each number, how much of sum_ was sent
  };

  bool is_late(const Link& link) const;
  void take(Range slice, Link& link, base::ByteVector* out);
  void take_back(double share);
  void touch(Range range);
  void end_step();
  void sum_what_is_due(std::span<const float> weights);
  void forget_sums();

  const Options options_;
  uint32_t alive_;
  uint64_t step_ = 0;
  // The sum of all own gradients or updates. A sum of updates is the weights minus base_. It is
  // computed only for numbers that are due for a link, so that the time of a step depends on what
  // is exchanged, not on the size of the model.
  std::vector<float> sum_;
  // Only for updates: the initial weights plus everything that settle() has added to the weights.
  std::vector<float> base_;
  std::vector<float> received_;  // what the next step adds
  // Only for updates: what this process has given away to all peers together.
  std::vector<float> given_;
  std::vector<Range> touched_;  // the ranges in which received_ may differ from zero
  std::vector<Link> links_;
};

}  // namespace forebay::train
