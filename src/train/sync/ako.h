// Partial exchange between peers, after Ako (Watcharapichat and others, "Ako: decentralised deep
// learning with partial gradient exchange", SoCC 2016). In each step a process sends each peer one
// partition of what it has accumulated for that peer since it last sent that partition, so that all
// of it reaches each peer exactly once, at most `p` steps later.
//
// What is accumulated are gradients, like in the publication, or updates: how far the process's own
// optimiser has moved the weights. A process applies a gradient with 1/n of its weight and the
// other processes do so later. An update it applies as a whole, and gives 1/n of it to each peer as
// it sends it, so that in the end 1/n is left: then all have the mean of what all have moved.
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
    // How many own steps something may wait here for a link before the training thread waits for
    // the link; 0 stands for no bound.
    uint64_t staleness = 0;
    // Into how many parts the model is cut at least, above 0.
    uint32_t partitions_least = 1;
    // What an encoding leaves out of a slice stays accumulated, and is sent later. None: as many
    // bytes a number as each link carries.
    std::optional<Encoding> encoding = Encoding::kFloat32;
  };
  // `weights` are the first weights, the same in all processes. How far a process has gone from
  // them by itself counts as its first update (only with Of::kUpdates).
  Ako(const Options& options, std::span<const float> weights);

  bool must_wait() const override;
  // Waits no more for links that are too slow until they take something again.
  bool timed_out() override;
  // Adds the gradients that have arrived, and divides the sum by the number of processes that are
  // alive. So the learning rate means what it means with an all-reduce, which takes the mean. When
  // updates are exchanged, it only checks the gradient.
  Status before_update(std::span<float> gradient) override;
  // Adds the updates that have arrived, less what was given away.
  void after_update(std::span<float> weights) override;
  void settle(std::span<float> weights) override;
  bool next(uint32_t peer, uint64_t floats_max, Outgoing* out) override;
  Status received(const MessageHeader& header, std::span<const float> floats) override;
  Status lost(uint32_t peer) override;
  void measured(uint32_t peer, double floats_per_step) override;
  Encoding encoding(uint32_t peer) const override { return links_[peer].encoding; }
  uint32_t partitions(uint32_t peer) const override { return links_[peer].partitions.count(); }
  // The part of its own updates that was not sent yet counts with 1/n, too.
  std::vector<float> averaged(std::span<const float> weights) const override;

 private:
  struct Link {
    Link(uint64_t floats, uint32_t partitions_least, uint64_t first)
        : partitions(floats, partitions_least), rounds({.begin = 0, .count = floats}, first) {}
    bool is_gone = false;   // lost, or this process itself
    bool is_stuck = false;  // has taken nothing for too long
    Encoding encoding = Encoding::kFloat32;
    Partitions partitions;
    Rounds rounds;                // what the link shall send next
    std::vector<float> sent_sum;  // for each number, how much of sum_ was sent
  };

  bool is_late(const Link& link) const;
  void take(Range slice, Link& link, base::ByteVector* out);
  void end_step();
  void sum_what_is_due(std::span<const float> weights);
  void forget_sums();

  const Options options_;
  uint32_t alive_;
  uint64_t step_ = 0;
  // The sum of all own gradients or updates. A sum of updates is the weights less base_, and is
  // computed only for numbers that are due for some link, so that a step takes time for what is
  // exchanged and not for the whole model.
  std::vector<float> sum_;
  std::vector<float> base_;      // of updates: the first weights and all that others have added
  std::vector<float> received_;  // what the next step adds
  std::vector<Range> touched_;   // where received_ may be other than zero
  std::vector<Link> links_;
};

}  // namespace forebay::train
