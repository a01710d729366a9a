// Averages weights with one random peer after another while the training continues, after AD-PSGD
// (Lian and others, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018).
// One of two processes begins all exchanges between them, as in AD-PSGD: if both began at the same
// time, each would move the whole way to the other instead of half, and they would swap weights.
// The process that begins sends its weights to the peer, slice by slice. The peer moves its own
// weights half way towards them and answers with how far it moved; then the process moves its
// weights as far in the opposite direction. So the mean of all processes' weights stays the same,
// whenever messages arrive.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/random.h"
#include "train/sync/strategy.h"

namespace forebay::train {

class Pairs final : public Strategy {
 public:
  // `weights` are the initial weights, the same in all processes; peers are drawn by `seed`.
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

  // Whether this process begins the exchanges with the peer; each process does so with half of the
  // others.
  bool begins_with(uint32_t peer) const;
  void choose_partner();

  const uint32_t rank_;
  base::Random random_;
  uint64_t step_ = 0;
  uint64_t partner_step_ = 0;        // the step in which the partner was chosen
  std::optional<uint32_t> partner_;  // the peer to which this process sends its weights
  uint64_t sent_ = 0;                // how many floats were sent to the partner
  uint64_t answered_ = 0;            // how many floats the partner has answered
  std::vector<bool> is_gone_;
  std::vector<float> weights_;  // the weights of the last step plus arrived_
  std::vector<float> arrived_;  // how far messages since the last step move the weights
  std::vector<std::deque<Answer>> answers_;
};

}  // namespace forebay::train
