// deps: forebay_image forebay_io nlohmann_json::nlohmann_json
// How fast one core of the host plans samples for a GPU, without a GPU: headers, crops, needed
// segments and resize weights, all written to the memory that would be sent.
//    bench_gpu_plan PHOTOS [ROUNDS]
// Takes the photographs as `forebay pack` stores them, random resized crops of 224 pixels, 64 at a
// time, and the best of the rounds (10). Figures: plan_per_second, crops that one core plans in a
// second; decode_per_second, crops that it decodes itself; plan_vs_decode_x, the ratio of these;
// sent_bytes, the mean bytes sent for a crop; sent_share, these as a share of the file.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "image/prepare_gpu.h"
#include "jpeg/rewrite/rewrite.h"
#include "lib/clock.h"
#include "lib/files.h"
#include "lib/machine.h"

namespace {

using namespace forebay;
using base::ByteVector;
using bench::stop;

constexpr size_t kAtOnce = 64;
constexpr image::Transform kTransform{};

// A queue that runs nothing and reports success.
class IdleQueue final : public image::gpu::Queue {
 public:
  explicit IdleQueue(uint64_t* sent) : sent_bytes_(sent) {}
  base::Result<Memory> reserve(size_t sent, size_t) override {
    memory_.resize(std::max(sent, memory_.size()));
    return Memory{memory_.data(), memory_.data(), memory_.data()};
  }
  base::Status run(const image::gpu::KernelArguments& arguments) override {
    *sent_bytes_ += arguments.sent_bytes;
    return {};
  }
  base::Status wait(uint32_t*) override { return {}; }
  bool is_done() override { return true; }
  base::Status begin_after(void*) override { return {}; }
  base::Status order_before(void*) override { return {}; }
  base::Status clear(uint8_t*, size_t) override { return {}; }
  base::Status send(base::Bytes, uint8_t*) override { return {}; }
  base::Status fetch(const uint8_t*, std::span<uint8_t>) override { return {}; }

 private:
  ByteVector memory_;
  uint64_t* sent_bytes_;
};

class IdleDevice final : public image::gpu::Device {
 public:
  int number() const override { return -1; }
  base::Result<std::unique_ptr<image::gpu::Queue>> open_queue() override {
    return std::make_unique<IdleQueue>(&sent_bytes);
  }
  base::Result<std::shared_ptr<uint8_t>> allocate(size_t) override {
    return std::shared_ptr<uint8_t>();
  }
  uint64_t sent_bytes = 0;
};

// Passes once over all files in batches given to `prepare`, and returns the seconds that this took.
template <class Prepare>
double run_all(const std::vector<ByteVector>& files, uint8_t* out, size_t sample_bytes,
               const Prepare& prepare) {
  const double start = bench::thread_seconds();
  for (size_t first = 0; first < files.size(); first += kAtOnce) {
    std::vector<image::PrepareRequest> requests;
    for (size_t i = first; i < std::min(first + kAtOnce, files.size()); ++i) {
      requests.push_back({.file = files[i],
                          .random = base::Random(1, base::Purpose::kAugment, 0, i),
                          .out = out + (i - first) * sample_bytes});
    }
    prepare(requests);
    for (const auto& request : requests) {
      if (!request.status.ok()) stop(request.status.message());
    }
  }
  return bench::thread_seconds() - start;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) stop("usage: bench_gpu_plan PHOTOS [ROUNDS]");
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 10;
  std::vector<ByteVector> files;
  uint64_t file_bytes = 0;
  for (const ByteVector& file : bench::read_files(argv[1], 500)) {
    const auto rewritten = jpeg::rewrite(file);
    if (!rewritten) continue;
    files.push_back(rewritten->file);
    file_bytes += rewritten->file.size();
  }
  const auto device = std::make_shared<IdleDevice>();
  image::GpuPreparer planner(kTransform, {}, device);
  image::Preparer decoder(kTransform, {});
  ByteVector out(kAtOnce * decoder.sample_bytes());
  bench::Shortest plan;
  bench::Shortest decode;
  for (int round = 0; round < rounds; ++round) {
    plan.add(run_all(files, out.data(), decoder.sample_bytes(),
                     [&](auto& requests) { planner.prepare(requests, true); }));
    decode.add(run_all(files, out.data(), decoder.sample_bytes(),
                       [&](auto& requests) { decoder.prepare(requests); }));
  }
  const auto count = static_cast<double>(files.size());
  const double passes = count * rounds;
  if (planner.made_on_gpu() != files.size() * static_cast<size_t>(rounds)) {
    stop(fmt::format("{} of {} crops were planned", planner.made_on_gpu(), passes));
  }
  const auto sent = static_cast<double>(device->sent_bytes);
  const nlohmann::ordered_json figures{
      {"machine", bench::machine()},
      {"plan_per_second", count / plan.seconds()},
      {"decode_per_second", count / decode.seconds()},
      {"plan_vs_decode_x", decode.seconds() / plan.seconds()},
      {"sent_bytes", sent / passes},
      {"sent_share", sent / rounds / static_cast<double>(file_bytes)}};
  fmt::print("{}\n", figures.dump(2));
}
