// deps: forebay_train nlohmann_json::nlohmann_json
// What the loader costs a training run: samples in a second with the feed, compared with the same
// model on one batch that is held in memory, in alternating segments of one run.
//    bench_train DATASET [WIDTH] [BATCH] [SEGMENTS] [STEPS]
// Loader and trainer share the cores. A segment with the feed begins with its prefetched batches
// ready and lasts until as many are ready again. So it pays for every batch that it uses, and
// leaves no work to the next segment.
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/file_system.h"
#include "lib/machine.h"
#include "train/learner.h"

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

using BatchPtr = std::shared_ptr<const feed::Batch>;

int64_t loader_cpu_ns(const feed::Feed& feed) {
  return feed.stats().prepare_ns + feed.stats().read_ns;
}

Result<BatchPtr> next(feed::Feed& feed) {
  ASSIGN_OR_RETURN(auto batch, feed.next());
  if (batch) return batch;
  RETURN_IF_ERROR(feed.start({feed.state().epoch + 1, 0, {}}));
  return feed.next();
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
base::Status segment(train::Learner& learner, feed::Feed& feed, const std::vector<BatchPtr>& held,
                     uint64_t steps, Tally* tally) {
  const int64_t start_ns = io::monotonic_ns();
  const int64_t cpu_ns = io::process_cpu_ns();
  for (uint64_t i = 0; i < steps; ++i) {
    const int64_t asked_ns = io::monotonic_ns();
    BatchPtr batch = held.empty() ? nullptr : held[i % held.size()];
    if (!batch) {
      ASSIGN_OR_RETURN(batch, next(feed));
    }
    tally->wait_ns += io::monotonic_ns() - asked_ns;
    ASSIGN_OR_RETURN(const train::BatchResult result, learner.gradients(batch));
    if (result.samples > 0) learner.apply(learner.rate(0));
    tally->samples += result.samples;
  }
  const int64_t end_ns = io::monotonic_ns();
  tally->ns += std::max(end_ns, wait_until_idle()) - start_ns;
  tally->cpu_ns += io::process_cpu_ns() - cpu_ns;
  return {};
}

base::Status measure(const std::string& path, int64_t width, uint32_t batch, int segments,
                     uint64_t steps) {
  ASSIGN_OR_RETURN(const auto dataset, store::open_packed(io::posix_file_system(), path));
  ASSIGN_OR_RETURN(const train::Choice choice, train::choose_precision("auto", at::kCPU));
  feed::FeedOptions options;
  options.transform = {.size = image::square(32),
                       .crop = image::RandomCrop{.resize = image::ShortSide{32},
                                                 .padding = {4, 4, 4, 4},
                                                 .border = {.kind = image::BorderKind::kReflect}}};
  options.global_batch = batch;
  options.tensor.layout = image::Layout::kNhwc;
  options.tensor.dtype = choice.precision == train::Precision::kBf16 ? image::DType::kBfloat16
                                                                     : image::DType::kFloat32;
  std::vector<BatchPtr> held;
  {
    ASSIGN_OR_RETURN(const auto feed, feed::Feed::open(dataset, options));
    RETURN_IF_ERROR(feed->start({}));
    for (int i = 0; i < kHeldBatches; ++i) {
      ASSIGN_OR_RETURN(held.emplace_back(), next(*feed));
    }
  }
  ASSIGN_OR_RETURN(const auto feed, feed::Feed::open(dataset, options));
  at::set_num_threads(io::usable_cores());
  const auto classes = static_cast<int64_t>(dataset->schema().classes.size());
  ASSIGN_OR_RETURN(const auto model,
                   train::make_model({.name = "resnet9", .width = width, .classes = classes}));
  train::Learner learner(*model, {.precision = choice.precision,
                                  .sgd = {},
                                  .schedule = {.peak = 0.01, .total_steps = 1},
                                  .label_smoothing = 0.1});
  RETURN_IF_ERROR(feed->start({}));
  Tally warm_up;
  Tally fed;
  Tally memory;
  RETURN_IF_ERROR(segment(learner, *feed, held, steps, &warm_up));
  const int64_t loader_ns = loader_cpu_ns(*feed);
  fmt::print("segment  fed samples/s  in memory samples/s (means so far)\n");
  for (int i = 0; i < segments; ++i) {
    RETURN_IF_ERROR(segment(learner, *feed, {}, steps, &fed));
    RETURN_IF_ERROR(segment(learner, *feed, held, steps, &memory));
    fmt::print("{:7}  {:13.0f}  {:19.0f}\n", i + 1, fed.rate(), memory.rate());
  }
  const nlohmann::json result = {
      {"machine", bench::machine()},
      {"precision", choice.why},
      {"width", width},
      {"batch", batch},
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
    fmt::print(stderr, "usage: bench_train DATASET [WIDTH] [BATCH] [SEGMENTS] [STEPS]\n");
    return 1;
  }
  // Same setting as in forebay-train.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
  const auto status = measure(argv[1], number(2, 16), static_cast<uint32_t>(number(3, 256)),
                              number(4, 6), static_cast<uint64_t>(number(5, 40)));
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_train: {}\n", status.message());
  return 1;
}
