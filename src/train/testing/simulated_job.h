// Training processes in a simulator: each computes at its own speed, and each pair of processes has
// a link of its own speed. Events of the simulator call the strategies, in place of threads and
// sockets.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sim/simulator.h"
#include "train/sync/strategy.h"

namespace forebay::train::testing {

// The processes train by SGD with the learning rate 1, without momentum.
class SimulatedJob {
 public:
  struct Options {
    uint64_t steps = 1;  // of each process
    std::function<int64_t(uint32_t process)> step_ns = [](uint32_t) { return 1'000'000; };
    // How long a message of `floats` numbers takes on a link.
    std::function<int64_t(uint32_t from, uint32_t to, uint64_t floats)> link_ns =
        [](uint32_t, uint32_t, uint64_t floats) { return static_cast<int64_t>(floats); };
    int64_t sum_ns = 1000;  // how long a sum over all processes takes, once all take part
    uint64_t message_floats_max = 1000;
    uint64_t damaged_one_of = 0;  // one message of this number is damaged; 0: none
    // Returns the gradient of a process's step at these weights.
    std::function<std::vector<float>(uint32_t process, uint64_t step,
                                     std::span<const float> weights)>
        gradient;
  };

  SimulatedJob(sim::Simulator& simulator, std::vector<std::unique_ptr<Strategy>> strategies,
               std::vector<float> weights, Options options)
      : simulator_(simulator), options_(std::move(options)) {
    for (auto& strategy : strategies) {
      Process& process = processes_.emplace_back();
      process.strategy = std::move(strategy);
      process.weights = weights;
      process.is_sending.resize(strategies.size(), false);
    }
    for (uint32_t rank = 0; rank < processes_.size(); ++rank) compute(rank);
  }

  std::span<const float> weights(uint32_t rank) const { return processes_[rank].weights; }
  uint64_t steps(uint32_t rank) const { return processes_[rank].steps; }
  Strategy& strategy(uint32_t rank) { return *processes_[rank].strategy; }
  uint64_t sent_floats(uint32_t rank) const { return processes_[rank].sent_floats; }
  uint64_t steps_in_message_max() const { return steps_in_message_max_; }

  // Ends a process, and tells the others.
  void kill(uint32_t rank) {
    processes_[rank].is_dead = true;
    for (uint32_t other = 0; other < processes_.size(); ++other) {
      Process& process = processes_[other];
      if (process.is_dead) continue;
      process.status = process.strategy->lost(rank);
      go_on(other);
    }
  }
  const Status& status(uint32_t rank) const { return processes_[rank].status; }

 private:
  enum class Waits { kNo, kBeforeUpdate, kAfterUpdate };
  struct Process {
    std::unique_ptr<Strategy> strategy;
    std::vector<float> weights;
    std::vector<float> gradient;
    std::vector<bool> is_sending;  // to each peer
    uint64_t steps = 0;
    uint64_t sent_floats = 0;
    Waits waits = Waits::kNo;
    std::vector<std::span<float>> sums;  // numbers to sum; not all processes take part yet
    bool is_dead = false;
    Status status;
  };

  void compute(uint32_t rank) {
    if (processes_[rank].steps == options_.steps) return;
    simulator_.after(options_.step_ns(rank), [this, rank] {
      Process& process = processes_[rank];
      if (process.is_dead) return;
      process.gradient = options_.gradient(rank, process.steps, process.weights);
      process.strategy->gradient_done(process.gradient);
      process.waits = Waits::kBeforeUpdate;
      go_on(rank);
    });
  }

  // Continues the step as far as the process need not wait, and sends what is due.
  void go_on(uint32_t rank) {
    Process& process = processes_[rank];
    if (process.is_dead) return;
    if (process.waits == Waits::kBeforeUpdate && !process.strategy->must_wait()) {
      process.status = process.strategy->before_update(process.gradient);
      for (size_t i = 0; i < process.weights.size(); ++i) {
        process.weights[i] -= process.gradient[i];
      }
      process.waits = Waits::kAfterUpdate;
    }
    if (process.waits == Waits::kAfterUpdate && !process.strategy->must_wait()) {
      process.strategy->after_update(process.weights);
      ++process.steps;
      process.waits = Waits::kNo;
      compute(rank);
    }
    for (uint32_t peer = 0; peer < processes_.size(); ++peer) send(rank, peer);
    while (true) {
      const auto sum = process.strategy->next_reduction();
      if (sum.empty()) break;
      process.sums.push_back(sum);
    }
    reduce();
  }

  void send(uint32_t rank, uint32_t peer) {
    Process& process = processes_[rank];
    if (peer == rank || process.is_sending[peer]) return;
    auto out = std::make_shared<Outgoing>();
    if (!process.strategy->next(peer, options_.message_floats_max, out.get())) return;
    out->header.sender = rank;
    process.is_sending[peer] = true;
    process.sent_floats += out->header.count;
    steps_in_message_max_ = std::max(steps_in_message_max_, out->header.steps);
    simulator_.after(options_.link_ns(rank, peer, out->header.count), [this, rank, peer, out] {
      processes_[rank].is_sending[peer] = false;
      Process& to = processes_[peer];
      std::vector<float> floats(out->header.count);
      decode(out->header.encoding, out->bytes, floats);
      if (options_.damaged_one_of > 0 && ++messages_ % options_.damaged_one_of == 0) {
        to.strategy->refused(out->header);
      } else if (!to.is_dead) {
        FOREBAY_CHECK(to.strategy->received(out->header, floats).ok());
      }
      for (const auto& [own, other] : {std::pair(peer, rank), std::pair(rank, peer)}) {
        // A waiting process may be able to continue; then each of its links may have something to
        // send.
        if (processes_[own].waits != Waits::kNo) {
          go_on(own);
        } else if (!processes_[own].is_dead) {
          send(own, other);
        }
      }
    });
  }

  void reduce() {
    if (is_summing_) return;
    for (const Process& process : processes_) {
      if (process.sums.empty()) return;
    }
    is_summing_ = true;
    simulator_.after(options_.sum_ns, [this] {
      std::vector<float> sum(processes_[0].sums.front().size());
      for (const Process& process : processes_) {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += process.sums.front()[i];
      }
      is_summing_ = false;
      for (uint32_t rank = 0; rank < processes_.size(); ++rank) {
        Process& process = processes_[rank];
        std::copy(sum.begin(), sum.end(), process.sums.front().begin());
        process.sums.erase(process.sums.begin());
        process.strategy->reduced();
      }
      for (uint32_t rank = 0; rank < processes_.size(); ++rank) go_on(rank);
    });
  }

  sim::Simulator& simulator_;
  const Options options_;
  std::vector<Process> processes_;
  uint64_t steps_in_message_max_ = 0;
  uint64_t messages_ = 0;
  bool is_summing_ = false;
};

// Returns a strategy for each process, made by `make(rank)`.
template <class Make>
std::vector<std::unique_ptr<Strategy>> strategies(uint32_t processes, const Make& make) {
  std::vector<std::unique_ptr<Strategy>> out;
  for (uint32_t rank = 0; rank < processes; ++rank) out.push_back(make(rank));
  return out;
}

}  // namespace forebay::train::testing
