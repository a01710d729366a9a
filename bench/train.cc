// What the loader costs a training run: samples a second fed by the feed against the same model fed
// one batch held in memory, in alternating segments of one run.
// Usage: bench_train DATASET [WIDTH] [BATCH] [SEGMENTS] [STEPS]
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/machine.h"
#include "train/learner.h"

namespace {

using namespace forebay;
using base::Result;

struct Tally {
  uint64_t samples = 0;
  int64_t ns = 0;
  int64_t cpu_ns = 0;
  int64_t wait_ns = 0;
  double rate() const { return static_cast<double>(samples) / (static_cast<double>(ns) / 1e9); }
};

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

Result<std::shared_ptr<const feed::Batch>> next(feed::Feed& feed) {
  ASSIGN_OR_RETURN(auto batch, feed.next());
  if (batch) return batch;
  const feed::FeedState state{feed.state().epoch + 1, 0, {}};
  RETURN_IF_ERROR(feed.start(state));
  return feed.next();
}

// `held` null: from the feed.
base::Status segment(train::Learner& learner, feed::Feed& feed,
                     const std::shared_ptr<const feed::Batch>& held, uint64_t steps, Tally* tally) {
  const int64_t start_ns = io::monotonic_ns();
  const int64_t cpu_ns = io::process_cpu_ns();
  for (uint64_t i = 0; i < steps; ++i) {
    auto batch = held;
    if (!held) {
      const int64_t asked_ns = io::monotonic_ns();
      ASSIGN_OR_RETURN(batch, next(feed));
      tally->wait_ns += io::monotonic_ns() - asked_ns;
    }
    ASSIGN_OR_RETURN(const train::StepResult result, learner.step(batch, 1));
    tally->samples += result.samples;
  }
  tally->ns += io::monotonic_ns() - start_ns;
  tally->cpu_ns += io::process_cpu_ns() - cpu_ns;
  return {};
}

base::Status measure(const std::string& path, int64_t width, uint32_t batch, int segments,
                     uint64_t steps) {
  const io::FileSystem& fs = io::posix_file_system();
  ASSIGN_OR_RETURN(const auto dataset, store::Dataset::open(fs, path));
  ASSIGN_OR_RETURN(const train::Choice choice, train::choose_precision("auto"));
  feed::FeedOptions options;
  image::TrainTransform transform{.size = 32, .crop = {}, .flip = true};
  transform.crop.scale_min = 0.75;
  options.transform = transform;
  options.global_batch = batch;
  options.tensor.layout = image::Layout::kNhwc;
  options.tensor.dtype = choice.precision == train::Precision::kBf16 ? image::DType::kBfloat16
                                                                     : image::DType::kFloat32;
  ASSIGN_OR_RETURN(const auto feed, feed::Feed::open(fs, dataset, options));
  RETURN_IF_ERROR(feed->start({}));
  ASSIGN_OR_RETURN(const auto held, next(*feed));
  at::set_num_threads(io::usable_cores());
  ASSIGN_OR_RETURN(const auto model,
                   train::make_model({.name = "resnet9", .width = width, .classes = 1000}));
  // A rate of nearly nothing: the held batch must not be learned by heart.
  train::Learner learner(*model, {.precision = choice.precision,
                                  .sgd = {},
                                  .schedule = {.peak = 1e-6, .total_steps = 1'000'000},
                                  .label_smoothing = 0.1});
  Tally warm;
  Tally fed;
  Tally memory;
  RETURN_IF_ERROR(segment(learner, *feed, held, 3, &warm));
  const int64_t loader_before_ns = feed->stats().prepare_ns + feed->stats().read_ns;
  fmt::print("segment  fed samples/s  in memory samples/s (means so far)\n");
  for (int i = 0; i < segments; ++i) {
    RETURN_IF_ERROR(segment(learner, *feed, nullptr, steps, &fed));
    RETURN_IF_ERROR(segment(learner, *feed, held, steps, &memory));
    fmt::print("{:7}  {:13.0f}  {:19.0f}\n", i + 1, fed.rate(), memory.rate());
  }
  const auto loader_ns =
      static_cast<double>(feed->stats().prepare_ns + feed->stats().read_ns - loader_before_ns);
  const nlohmann::json result = {
      {"machine", fmt::format("{}, {} cores", processor(), io::usable_cores())},
      {"precision", choice.why},
      {"width", width},
      {"batch", batch},
      {"fed_samples_per_s", fed.rate()},
      {"in_memory_samples_per_s", memory.rate()},
      {"of_in_memory", fed.rate() / memory.rate()},
      {"loader_cpu_share", loader_ns / static_cast<double>(fed.cpu_ns)},
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
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  const auto status = measure(argv[1], number(2, 16), static_cast<uint32_t>(number(3, 512)),
                              number(4, 5), static_cast<uint64_t>(number(5, 20)));
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_train: {}\n", status.message());
  return 1;
}
