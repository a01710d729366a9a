// Parameter servers (Li and others, "Scaling distributed machine learning with the parameter
// server", OSDI 2014). Some of the processes each hold a part of the model, apply all processes'
// gradients to it as they arrive, and answer with the new weights. No process waits for the
// gradients of others, but each waits while its weights are more than `staleness` of its steps old.
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
    std::vector<uint32_t> servers;  // the ranks that hold a part; the parts are equally large
    uint64_t staleness = 1;
  };
  // `weights` are the initial weights, the same in all processes.
  ParameterServers(Options options, std::span<const float> weights);

  void set_rules(std::vector<SgdRule> rules) override { rules_ = std::move(rules); }
  bool must_wait() const override;
  bool waits_for(uint32_t peer) const override;
  // Servers apply the gradients; the optimiser must do nothing.
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
  // A range whose gradients a worker has sent and whose new weights this server must answer with.
  struct Question {
    Range range;
    uint64_t step = 0;  // of the worker
  };
  // A process, as a server and as a worker.
  struct Peer {
    bool is_gone = false;
    std::optional<Range> part;       // the part that it holds, if it is a server
    std::optional<Rounds> pushed;    // the gradients that this process sends to it
    std::optional<Rounds> answered;  // the weights that it has answered with
    uint64_t unanswered = 0;         // how many numbers it was sent and has not answered yet
    std::deque<Question> to_answer;
    // Whether the last message to it was an answer. Answers and gradients take turns. Otherwise a
    // worker that always has questions would keep this process from sending its own gradients.
    bool answers = false;
  };

  // Applies a gradient that is the sum of `steps` steps of one process.
  void apply(Range range, std::span<const float> gradient, uint64_t steps);
  void apply(const SgdRule& rule, Range range, std::span<const float> gradient, uint64_t steps);
  void push(Peer& server, uint64_t floats_max, Outgoing* out);
  static void note_answer(Peer& server, uint64_t count, uint64_t step);
  void answer(Peer& worker, uint64_t floats_max, Outgoing* out);

  const Options options_;
  uint64_t step_ = 0;
  std::vector<SgdRule> rules_;
  std::vector<float> weights_;   // the newest known weights; this process's part is authoritative
  std::vector<float> momentum_;  // only of this process's part
  std::vector<float> pending_;   // sums of gradients that were not sent yet
  std::vector<Peer> peers_;
};

}  // namespace forebay::train
