// Averaging with one peer after another, chosen at random, while the training goes on, after
// AD-PSGD (Lian and others, "Asynchronous decentralized parallel stochastic gradient descent", ICML
// 2018). A process sends its weights to a peer, slice by slice; the peer moves half way towards
// them and answers with how far it moved, and the process moves as far back. So the mean of all
// processes' weights stays what it was, whenever messages arrive.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/random.h"
#include "train/sync/strategy.h"

namespace forebay::train {

class Pairs final : public Strategy {
 public:
  // `weights` are the first weights, the same in all processes; peers are drawn by `seed`.
  Pairs(uint32_t rank, uint32_t processes, uint64_t seed, std::span<const float> weights);

  Status before_update(std::span<float> gradient) override;
  void after_update(std::span<float> weights) override;
  void settle(std::span<float> weights) override;
  bool next(uint32_t peer, uint64_t floats_max, Outgoing* out) override;
  Status received(const MessageHeader& header, std::span<const float> floats) override;
  void refused(const MessageHeader& header) override;
  Status lost(uint32_t peer) override;

 private:
  struct Answer {
    Range range;
    std::vector<float> moved;
  };

  void choose_partner();

  base::Random random_;
  uint64_t step_ = 0;
  uint64_t partner_step_ = 0;        // when the partner was chosen
  std::optional<uint32_t> partner_;  // to whom this process is sending its weights
  uint64_t sent_ = 0;                // floats, to the partner
  uint64_t answered_ = 0;            // the same, of what it has answered
  std::vector<bool> is_gone_;
  std::vector<float> weights_;  // after the last step, with what has arrived since
  std::vector<float> arrived_;  // what the weights shall move by since the last step
  std::vector<std::deque<Answer>> answers_;
};

}  // namespace forebay::train
