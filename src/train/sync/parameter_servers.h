// Parameter servers: some of the processes hold a part of the model each, apply everybody's
// gradients to it as they come, and answer with the new weights (Li and others, "Scaling
// distributed machine learning with the parameter server", OSDI 2014). Nobody waits for others'
// gradients, but a process waits when its own weights are more than `staleness` of its steps old.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "train/sync/rounds.h"
#include "train/sync/strategy.h"

namespace forebay::train {

class ParameterServers final : public Strategy {
 public:
  struct Options {
    uint32_t rank = 0;
    uint32_t processes = 1;
    std::vector<uint32_t> servers;  // the ranks that hold a part, all of the same size
    uint64_t staleness = 1;
  };
  // `weights` are the first weights, the same in all processes.
  ParameterServers(Options options, std::span<const float> weights);

  // The rules for all numbers, in their order. They hold for the gradients that come after this.
  void set_rules(std::vector<SgdRule> rules) override { rules_ = std::move(rules); }
  bool must_wait() const override;
  // Gradients are applied where the weights are held; the optimiser must do nothing.
  Status before_update(std::span<float> gradient) override;
  void after_update(std::span<float> weights) override;
  bool next(uint32_t peer, uint64_t floats_max, Outgoing* out) override;
  Status received(const MessageHeader& header, std::span<const float> floats) override;
  void refused(const MessageHeader& header) override;
  Status lost(uint32_t peer) override;
  std::vector<Kept> kept() override {
    return {{"momentum", momentum_, peers_[options_.rank].part.value_or(Range())}};
  }

 private:
  struct Question {
    Range range;
    uint64_t step = 0;  // of the process that asks
  };
  // A process, as a server and as a worker.
  struct Peer {
    bool is_gone = false;
    std::optional<Range> part;       // what it holds, if it is a server
    std::optional<Rounds> pushed;    // this process's gradients for it
    std::optional<Rounds> answered;  // what it has answered with new weights
    uint64_t unanswered = 0;         // numbers of gradients that it has not answered yet
    std::deque<Question> to_answer;  // it has sent gradients for these
    // Whether the last message to it was an answer. Answers and gradients take turns: a worker that
    // asks all the time would else keep this process from sending gradients itself.
    bool answers = false;
  };

  // `steps` of one process have made the gradient.
  void apply(Range range, std::span<const float> gradient, uint64_t steps);
  void apply(const SgdRule& rule, Range range, std::span<const float> gradient, uint64_t steps);
  void push(Peer& server, uint64_t floats_max, Outgoing* out);
  static void note_answer(Peer& server, uint64_t count, uint64_t step);
  void answer(Peer& worker, uint64_t floats_max, Outgoing* out);

  const Options options_;
  uint64_t step_ = 0;
  std::vector<SgdRule> rules_;
  std::vector<float> weights_;   // the newest that are known; in the own part they are the truth
  std::vector<float> momentum_;  // of the own part
  std::vector<float> pending_;   // gradients that were not pushed yet
  std::vector<Peer> peers_;
};

}  // namespace forebay::train
