// deps: forebay_train nlohmann_json::nlohmann_json
// What the loader costs a training run: samples in a second with the feed, compared with the same
// model on batches that it holds in memory, in alternating segments of one run. The model is the
// one of `forebay train`, and learns where that would, on a GPU where there is one: then the held
// batches are in the GPU's memory.
//    bench_train DATASET [MODEL] [WIDTH] [BATCH] [SEGMENTS] [STEPS]
// On a processor, loader and trainer share the cores. A segment with the feed begins with its
// prefetched batches ready and lasts until as many are ready again. So it pays for every batch that
// it uses, and leaves no work to the next segment.
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/file_system.h"
#include "lib/machine.h"
#include "train/model/device.h"
#include "train/run/classes.h"
#include "train/run/stage_options.h"

namespace {

using namespace forebay;
using base::Result;

constexpr int kHeldBatches = 8;  // several batches, so that none is memorised
constexpr auto kPollEvery = std::chrono::milliseconds(5);

struct Tally {
  uint64_t samples = 0;
  int64_t ns = 0;
  int64_t cpu_ns = 0;
  int64_t wait_ns = 0;
  double rate() const { return static_cast<double>(samples) / (static_cast<double>(ns) / 1e9); }
};

int64_t loader_cpu_ns(const feed::Feed& feed) {
  return feed.stats().prepare_ns + feed.stats().read_ns;
}

Result<train::Samples> next(const train::Learner& learner, feed::Feed& feed) {
  ASSIGN_OR_RETURN(auto batch, feed.next());
  if (!batch) {
    RETURN_IF_ERROR(feed.start({feed.state().epoch + 1, 0, {}}));
    ASSIGN_OR_RETURN(batch, feed.next());
  }
  return learner.take(batch);
}

// Waits until no thread of this process works any more. Returns the time when that began.
int64_t wait_until_idle() {
  while (true) {
    const int64_t began_ns = io::monotonic_ns();
    const int64_t cpu_ns = io::process_cpu_ns();
    std::this_thread::sleep_for(kPollEvery);
    if (io::process_cpu_ns() - cpu_ns < 200'000) return began_ns;
  }
}

// Trains one segment, on batches of the feed when `held` is empty.
base::Status segment(train::Learner& learner, feed::Feed& feed,
                     const std::vector<train::Samples>& held, uint64_t steps, bool takes_ahead,
                     Tally* tally) {
  const int64_t start_ns = io::monotonic_ns();
  const int64_t cpu_ns = io::process_cpu_ns();
  std::optional<Result<train::Samples>> ahead;
  for (uint64_t i = 0; i < steps; ++i) {
    const auto take = [&] {
      const int64_t asked_ns = io::monotonic_ns();
      ahead = held.empty() ? next(learner, feed) : held[i % held.size()];
      tally->wait_ns += io::monotonic_ns() - asked_ns;
    };
    if (!ahead) take();
    ASSIGN_OR_RETURN(const train::Samples samples, *std::move(ahead));
    ahead.reset();
    const std::function<void()> meanwhile =
        takes_ahead && i + 1 < steps ? take : std::function<void()>();
    ASSIGN_OR_RETURN(const train::BatchResult result, learner.gradients(samples, meanwhile));
    if (result.samples > 0) learner.apply(learner.rate(0));
    tally->samples += result.samples;
  }
  const int64_t end_ns = io::monotonic_ns();
  tally->ns += std::max(end_ns, wait_until_idle()) - start_ns;
  tally->cpu_ns += io::process_cpu_ns() - cpu_ns;
  return {};
}

struct Plan {
  train::Options options;
  int segments = 0;
  uint64_t steps = 0;  // of a segment
};

base::Status measure(const std::string& path, const Plan& plan) {
  ASSIGN_OR_RETURN(const auto dataset, store::open_packed(io::posix_file_system(), path));
  ASSIGN_OR_RETURN(const uint32_t side, train::first_image_side(*dataset));
  const train::Options options = train::settled(plan.options, side);
  ASSIGN_OR_RETURN(const c10::Device device, train::choose_device("auto"));
  ASSIGN_OR_RETURN(const train::ResolvedPrecision choice, train::resolve_precision("auto", device));
  ASSIGN_OR_RETURN(const auto feed,
                   feed::Feed::open(dataset, train::training_feed(options, {}, choice.precision)));
  at::set_num_threads(io::usable_cores());
  ASSIGN_OR_RETURN(const auto model, train::make_model({.name = options.model,
                                                        .width = options.width,
                                                        .classes = train::class_count(*dataset)}));
  model->to(device);
  train::SingleLearner learner(*model, {.precision = choice.precision,
                                        .sgd = {},
                                        .schedule = {.peak = 0.01, .total_steps = 1},
                                        .label_smoothing = 0.1});
  RETURN_IF_ERROR(feed->start({}));
  std::vector<train::Samples> held;
  for (int i = 0; i < kHeldBatches; ++i) {
    ASSIGN_OR_RETURN(held.emplace_back(), next(learner, *feed));
  }
  const bool takes_ahead = !device.is_cpu();
  Tally warm_up;
  Tally fed;
  Tally memory;
  RETURN_IF_ERROR(segment(learner, *feed, {}, plan.steps, takes_ahead, &warm_up));
  const int64_t loader_ns = loader_cpu_ns(*feed);
  fmt::print("segment  fed samples/s  in memory samples/s (means so far)\n");
  for (int i = 0; i < plan.segments; ++i) {
    RETURN_IF_ERROR(segment(learner, *feed, {}, plan.steps, takes_ahead, &fed));
    RETURN_IF_ERROR(segment(learner, *feed, held, plan.steps, takes_ahead, &memory));
    fmt::print("{:7}  {:13.0f}  {:19.0f}\n", i + 1, fed.rate(), memory.rate());
  }
  const nlohmann::json result = {
      {"machine", bench::machine()},
      {"device", device.str()},
      {"precision", choice.why},
      {"model", options.model},
      {"width", options.width},
      {"batch", options.batch},
      {"fed_samples_per_s", fed.rate()},
      {"in_memory_samples_per_s", memory.rate()},
      {"of_in_memory", fed.rate() / memory.rate()},
      {"loader_cpu_share",
       static_cast<double>(loader_cpu_ns(*feed) - loader_ns) / static_cast<double>(fed.cpu_ns)},
      {"wait_share", static_cast<double>(fed.wait_ns) / static_cast<double>(fed.ns)}};
  fmt::print("{}\n", result.dump());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, int fallback) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : fallback;
  };
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_train DATASET [MODEL] [WIDTH] [BATCH] [SEGMENTS] [STEPS]\n");
    return 1;
  }
  // Same setting as in forebay-train.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
  Plan plan;
  plan.options.model = argc > 2 ? argv[2] : "resnet9";
  plan.options.width = number(3, 16);
  plan.options.batch = static_cast<uint32_t>(number(4, 256));
  plan.segments = number(5, 6);
  plan.steps = static_cast<uint64_t>(number(6, 40));
  const auto status = measure(argv[1], plan);
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_train: {}\n", status.message());
  return 1;
}
