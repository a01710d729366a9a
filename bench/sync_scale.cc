// deps: forebay_train_sync forebay_sim nlohmann_json::nlohmann_json
// Simulates, without a network, more training processes with thin links than this machine can run:
//    bench_sync_scale
// Time is virtual.
// traffic: Ako with a model of 1 GB, one step per second, and a link of 1.25 GB/s (10 Gbit/s) for
// each process, for 8, 64 and 1,000 processes. Links are equal, or differ by up to four times. The
// figures: the part of its link that a process uses, and the largest age, in steps divided by p, of
// what arrives. (Eight processes send; the others only receive.)
// steps: how many steps 64 processes need until a network of 2,762 numbers has learned to give the
// outputs of another network, divided by the steps of all-reduce. By strategy, and by the number of
// steps after which the other processes have what a process has learned: Ako's p, or the steps
// between exchanges of local steps. Null if twelve times all-reduce's steps were not enough.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/machine.h"
#include "train/sync/ako.h"
#include "train/sync/all_reduce.h"
#include "train/sync/local_steps.h"
#include "train/sync/pairs.h"
#include "train/testing/simulated_job.h"

namespace {

using namespace forebay;
using namespace forebay::train;
using base::Purpose;
using base::Random;
using train::testing::SimulatedJob;
using train::testing::strategies;

constexpr int64_t kSecond = 1'000'000'000;

// Receives, and does nothing else.
class Sink final : public Strategy {
 public:
  Status before_update(std::span<float> /*gradient*/) override { return {}; }
  Status received(const MessageHeader& /*header*/, std::span<const float> /*floats*/) override {
    return {};
  }
  Status lost(uint32_t /*peer*/) override { return {}; }
};

nlohmann::json traffic(uint32_t processes, bool is_even) {
  constexpr uint64_t kFloats = 8000;            // stand for the model of 1 GB
  constexpr double kModelSeconds = 1.0 / 1.25;  // for sending it once over the whole link
  constexpr uint32_t kSenders = 8;
  sim::Simulator simulator(0);
  std::vector<double> speeds;
  for (uint32_t i = 0; i < processes; ++i) {
    speeds.push_back(is_even ? 1 : std::exp2(2 * simulator.random().uniform() - 1));
  }
  const double peers = processes - 1;
  const auto share = [&](uint32_t a, uint32_t b) { return std::min(speeds[a], speeds[b]) / peers; };
  double worst_p = 0;
  std::vector<std::unique_ptr<Strategy>> all;
  for (uint32_t rank = 0; rank < processes; ++rank) {
    if (rank >= kSenders) {
      all.push_back(std::make_unique<Sink>());
      continue;
    }
    auto ako = std::make_unique<Ako>(Ako::Options{.rank = rank, .processes = processes},
                                     std::vector<float>(kFloats));
    for (uint32_t peer = 0; peer < processes; ++peer) {
      if (peer == rank) continue;
      ako->measured(peer, kFloats * share(rank, peer) / kModelSeconds);
      worst_p = std::max(worst_p, static_cast<double>(ako->partitions(peer)));
    }
    all.push_back(std::move(ako));
  }
  SimulatedJob::Options options;
  options.steps = static_cast<uint64_t>(2 * worst_p) + 20;
  options.step_ns = [](uint32_t) { return kSecond; };
  options.message_floats_max = kFloats;
  options.link_ns = [&](uint32_t from, uint32_t to, uint64_t floats) {
    return static_cast<int64_t>(static_cast<double>(floats) / kFloats * kModelSeconds /
                                share(from, to) * kSecond);
  };
  options.gradient = [](uint32_t process, uint64_t step, std::span<const float>) {
    return std::vector<float>(kFloats, process < kSenders ? static_cast<float>(step % 3) : 0.F);
  };
  SimulatedJob job(simulator, std::move(all), std::vector<float>(kFloats), options);
  FOREBAY_CHECK(simulator.run(2'000'000'000).ok());
  double used = 0;
  for (uint32_t rank = 0; rank < kSenders; ++rank) {
    double own = 0;
    for (uint32_t peer = 0; peer < processes; ++peer) {
      if (peer != rank) own += share(rank, peer);
    }
    const double models = static_cast<double>(job.sent_floats(rank)) / kFloats;
    used += models * kModelSeconds / static_cast<double>(options.steps) / own / kSenders;
  }
  return {{"processes", processes},
          {"links", is_even ? "even" : "uneven"},
          {"p_max", worst_p},
          {"link_used", used},
          {"age_max_in_p", static_cast<double>(job.steps_in_message_max()) / worst_p}};
}

// A network of one hidden layer, and its gradients.
class Network {
 public:
  static constexpr size_t kInputs = 32;
  static constexpr size_t kHidden = 64;
  static constexpr size_t kClasses = 10;
  static constexpr size_t kFloats = (kInputs + 1) * kHidden + (kHidden + 1) * kClasses;

  static std::vector<float> random_weights(uint64_t seed, double scale) {
    Random random(seed, Purpose::kTest);
    std::vector<float> weights(kFloats);
    for (float& weight : weights) {
      weight = static_cast<float>(scale * (random.uniform() + random.uniform() - 1));
    }
    return weights;
  }

  // Adds the gradient for one input, and returns the loss.
  double learn(std::span<const float> weights, std::span<const float> input, size_t label,
               std::span<float> gradient) {
    forward(weights, input);
    double sum = 0;
    for (const double logit : logits_) sum += std::exp(logit);
    std::array<double, kHidden> hidden_gradient = {};
    for (size_t c = 0; c < kClasses; ++c) {
      const double error = std::exp(logits_[c]) / sum - (c == label ? 1 : 0);
      const size_t at = kSecondLayer + c * (kHidden + 1);
      for (size_t h = 0; h < kHidden; ++h) {
        gradient[at + h] += static_cast<float>(error * hidden_[h]);
        hidden_gradient[h] += error * double{weights[at + h]};
      }
      gradient[at + kHidden] += static_cast<float>(error);
    }
    for (size_t h = 0; h < kHidden; ++h) {
      if (hidden_[h] <= 0) continue;
      const auto error = static_cast<float>(hidden_gradient[h]);
      const size_t at = h * (kInputs + 1);
      for (size_t i = 0; i < kInputs; ++i) gradient[at + i] += error * input[i];
      gradient[at + kInputs] += error;
    }
    return std::log(sum) - logits_[label];
  }

  size_t predict(std::span<const float> weights, std::span<const float> input) {
    forward(weights, input);
    return static_cast<size_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  }

 private:
  static constexpr size_t kSecondLayer = (kInputs + 1) * kHidden;

  void forward(std::span<const float> weights, std::span<const float> input) {
    for (size_t h = 0; h < kHidden; ++h) {
      const float* const row = weights.data() + h * (kInputs + 1);
      float sum = row[kInputs];
      for (size_t i = 0; i < kInputs; ++i) sum += row[i] * input[i];
      hidden_[h] = std::max(0.0, double{sum});
    }
    for (size_t c = 0; c < kClasses; ++c) {
      const float* const row = weights.data() + kSecondLayer + c * (kHidden + 1);
      double sum = row[kHidden];
      for (size_t h = 0; h < kHidden; ++h) sum += double{row[h]} * hidden_[h];
      logits_[c] = sum;
    }
  }

  std::array<double, kHidden> hidden_ = {};
  std::array<double, kClasses> logits_ = {};
};

// The task of 64 processes: each draws its own inputs, and another network gives their classes.
class Learning {
 public:
  static constexpr uint32_t kProcesses = 64;
  static constexpr size_t kBatch = 8;
  static constexpr double kMomentum = 0.9;
  static constexpr double kLoss = 0.7;
  static constexpr uint64_t kLook = 5;  // steps from one look at the loss to the next

  explicit Learning(double rate) : rate_(rate), momentum_(kProcesses) {
    for (auto& one : momentum_) one.assign(Network::kFloats, 0);
  }

  // Returns what the process's optimiser subtracts from its weights.
  std::vector<float> update(uint32_t process, uint64_t step, std::span<const float> weights) {
    std::vector<float> gradient(Network::kFloats);
    Random random(step, Purpose::kSimulation, process);
    for (size_t i = 0; i < kBatch; ++i) {
      const auto [input, label] = draw(random);
      network_.learn(weights, input, label, gradient);
    }
    std::vector<float>& momentum = momentum_[process];
    for (size_t i = 0; i < gradient.size(); ++i) {
      momentum[i] = static_cast<float>(kMomentum * double{momentum[i]} +
                                       rate_ * double{gradient[i]} / kBatch);
    }
    if (process == 0 && step % kLook == 0) look(step, weights);
    return momentum;
  }

  // The steps of process 0 until its loss was at most kLoss; empty if it was not.
  std::optional<uint64_t> reached() const { return reached_; }

 private:
  std::pair<std::vector<float>, size_t> draw(Random& random) {
    std::vector<float> input(Network::kInputs);
    for (float& value : input) {
      value = static_cast<float>(2 * (random.uniform() + random.uniform() + random.uniform()) - 3);
    }
    const size_t label = network_.predict(teacher_, input);
    return {input, label};
  }

  void look(uint64_t step, std::span<const float> weights) {
    Random random(0, Purpose::kTest, 1);
    std::vector<float> unused(Network::kFloats);
    constexpr size_t kSamples = 500;
    double loss = 0;
    for (size_t i = 0; i < kSamples; ++i) {
      const auto [input, label] = draw(random);
      loss += network_.learn(weights, input, label, unused) / kSamples;
    }
    if (loss <= kLoss && !reached_) reached_ = step;
  }

  const double rate_;
  Network network_;
  const std::vector<float> teacher_ = Network::random_weights(1, 1.0);
  std::vector<std::vector<float>> momentum_;
  std::optional<uint64_t> reached_;
};

using Make =
    std::function<std::unique_ptr<Strategy>(uint32_t rank, std::span<const float> weights)>;

// Steps until the loss is reached, with the best of some learning rates.
std::optional<uint64_t> steps_of(const Make& make, uint64_t steps_max) {
  std::optional<uint64_t> best;
  for (const double rate : {0.05, 0.1, 0.2, 0.4}) {
    sim::Simulator simulator(0);
    Learning learning(rate);
    const std::vector<float> weights = Network::random_weights(2, 0.2);
    SimulatedJob::Options options;
    options.steps = best.value_or(steps_max);
    options.step_ns = [](uint32_t process) { return kSecond + process * kSecond / 1000; };
    options.link_ns = [](uint32_t, uint32_t, uint64_t) { return kSecond / 10; };
    options.message_floats_max = Network::kFloats;
    options.gradient = [&](uint32_t process, uint64_t step, std::span<const float> now) {
      return learning.update(process, step, now);
    };
    SimulatedJob job(
        simulator,
        strategies(Learning::kProcesses, [&](uint32_t rank) { return make(rank, weights); }),
        weights, options);
    FOREBAY_CHECK(simulator.run(2'000'000'000).ok());
    if (const auto reached = learning.reached()) best = std::min(*reached, best.value_or(*reached));
  }
  return best;
}

Make ako(uint32_t p) {
  return [p](uint32_t rank, std::span<const float> weights) {
    auto made = std::make_unique<Ako>(Ako::Options{.rank = rank, .processes = Learning::kProcesses},
                                      weights);
    for (uint32_t peer = 0; peer < Learning::kProcesses; ++peer) {
      if (peer != rank) made->measured(peer, static_cast<double>(weights.size()) / p);
    }
    return made;
  };
}

Make local(uint64_t steps) {
  return [steps](uint32_t, std::span<const float> weights) {
    return std::make_unique<LocalSteps>(LocalSteps::Options{.processes = Learning::kProcesses,
                                                            .floats = weights.size(),
                                                            .steps = steps,
                                                            .fragments = 4,
                                                            .delay = steps / 4 - 1},
                                        weights);
  };
}

nlohmann::json steps() {
  const auto reduced = steps_of(
      [](uint32_t, std::span<const float> weights) {
        return std::make_unique<AllReduce>(Learning::kProcesses,
                                           std::vector<uint64_t>{weights.size()});
      },
      2000);
  FOREBAY_CHECK(reduced.has_value());
  fmt::print("all-reduce: {} steps\n", *reduced);
  nlohmann::json out = {{"allreduce_steps", *reduced}};
  const auto compare = [&](const std::string& name, const Make& make) {
    const auto taken = steps_of(make, 12 * *reduced);
    out[name] = nullptr;
    if (taken) out[name] = static_cast<double>(*taken) / static_cast<double>(*reduced);
    fmt::print("{}: {}\n", name, out[name].dump());
    std::fflush(stdout);
  };
  for (const uint32_t p : {1U, 4U, 16U, 64U}) compare(fmt::format("ako_{}", p), ako(p));
  for (const uint64_t h : {8U, 16U, 64U}) compare(fmt::format("local_{}", h), local(h));
  compare("pairs", [](uint32_t rank, std::span<const float> weights) {
    return std::make_unique<Pairs>(rank, Learning::kProcesses, 0, weights);
  });
  return out;
}

}  // namespace

int main() {
  nlohmann::json out{{"machine", bench::machine()}};
  for (const uint32_t processes : {8U, 64U, 1000U}) {
    for (const bool is_even : {true, false}) {
      out["traffic"].push_back(traffic(processes, is_even));
      fmt::print("{}\n", out["traffic"].back().dump());
      std::fflush(stdout);
    }
  }
  out["steps"] = steps();
  fmt::print("{}\n", out.dump());
  return 0;
}
