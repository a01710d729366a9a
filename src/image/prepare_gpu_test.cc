// Samples made by the GPU's kernels, run on the host and, if there is one, on a GPU, equal the
// samples of the host's own code bit for bit.
#include "image/prepare_gpu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "image/testing/devices.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

// Prepares the same requests with the host's own code and with the kernels, and compares.
class BothWays {
 public:
  BothWays(const Transform& transform, const TensorOptions& options,
           Damaged damaged = Damaged::kRefuse)
      : host_(transform, options, damaged) {
    for (auto& device : devices()) {
      ways_.push_back({device, std::make_unique<GpuPreparer>(transform, options, device, damaged)});
    }
  }

  // Returns how many of the files the kernels decoded.
  uint64_t check(const std::vector<ByteVector>& files, uint64_t seed,
                 const std::optional<FixedCrop>& crop = {}) {
    const size_t bytes = host_.sample_bytes();
    ByteVector expected(files.size() * bytes, 0xA5);
    auto on_host = requests(files, seed, crop, expected.data());
    host_.prepare(on_host);
    uint64_t made = 0;
    for (const Way& way : ways_) {
      for (const bool decode_on_gpu : {false, true}) {
        const DeviceBytes memory(*way.device, ByteVector(expected.size(), 0xA5));
        auto on_gpu = requests(files, seed, crop, memory.data());
        const uint64_t before = way.preparer->made_on_gpu();
        way.preparer->prepare(on_gpu, decode_on_gpu);
        made = way.preparer->made_on_gpu() - before;
        EXPECT_TRUE(decode_on_gpu || made == 0);
        const ByteVector got = memory.content();
        for (size_t i = 0; i < files.size(); ++i) {
          SCOPED_TRACE(fmt::format("device {}, file {}, seed {}", way.device->number(), i, seed));
          EXPECT_EQ(on_host[i].status.code(), on_gpu[i].status.code());
          EXPECT_EQ(on_host[i].status.message(), on_gpu[i].status.message());
          if (!on_host[i].status.ok()) continue;
          EXPECT_EQ(std::memcmp(expected.data() + i * bytes, got.data() + i * bytes, bytes), 0);
        }
      }
    }
    return made;
  }

 private:
  struct Way {
    std::shared_ptr<gpu::Device> device;
    std::unique_ptr<GpuPreparer> preparer;
  };

  std::vector<PrepareRequest> requests(const std::vector<ByteVector>& files, uint64_t seed,
                                       const std::optional<FixedCrop>& crop, uint8_t* out) const {
    std::vector<PrepareRequest> all;
    for (size_t i = 0; i < files.size(); ++i) {
      all.push_back({.file = files[i],
                     .random = Random(seed, Purpose::kAugment, 0, i),
                     .out = out + i * host_.sample_bytes(),
                     .crop = crop});
    }
    return all;
  }

  Preparer host_;
  std::vector<Way> ways_;
};

// Files of all kinds of subsampling that a GPU accepts, with various sizes and restart intervals.
std::vector<ByteVector> make_files() {
  std::vector<ByteVector> files;
  Random random(7, Purpose::kTest);
  for (const auto& factors : jpeg::kLumaFactors) {
    for (int restart = 1; restart <= 9; restart += 4) {
      const jpeg::Sample sample{.width = 17 + static_cast<uint32_t>(random.below(120)),
                                .height = 17 + static_cast<uint32_t>(random.below(120)),
                                .across = factors[0],
                                .down = factors[1],
                                .quality = 30 + static_cast<int>(random.below(70)),
                                .restart = restart};
      files.push_back(jpeg::make_jpeg(sample, files.size()));
    }
  }
  files.push_back(jpeg::make_jpeg({.width = 90, .height = 70, .components = 1, .restart = 8}));
  files.push_back(jpeg::make_jpeg({.width = 90, .height = 70, .rgb = true, .restart = 8}));
  files.push_back(jpeg::make_jpeg({.width = 2, .height = 33, .across = 2, .restart = 2}));
  files.push_back(jpeg::make_jpeg({.width = 32, .height = 32, .across = 2, .down = 2}));
  return files;
}

TEST(PrepareGpu, MakesTheHostsSamples) {
  const auto files = make_files();
  for (const auto interpolation :
       {Interpolation::kBilinear, Interpolation::kBicubic, Interpolation::kNearest}) {
    for (const auto dtype : {DType::kUint8, DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
      for (const auto layout : {Layout::kNchw, Layout::kNhwc}) {
        BothWays ways({.size = {31, 26}, .interpolation = interpolation},
                      {.dtype = dtype, .layout = layout});
        EXPECT_EQ(ways.check(files, 1), files.size());
      }
    }
  }
}

// Covers all crops, borders, flips and erasing.
TEST(PrepareGpu, MakesTheHostsSamplesOfEveryTransform) {
  const auto files = make_files();
  std::vector<Transform> transforms;
  for (const auto kind :
       {BorderKind::kConstant, BorderKind::kEdge, BorderKind::kReflect, BorderKind::kSymmetric}) {
    const Border border{kind, {9, 90, 200}};
    transforms.push_back(
        {.size = {24, 20},
         .crop = RandomCrop{.resize = ShortSide{30}, .padding = {3, 5, 7, 2}, .border = border}});
    transforms.push_back(
        {.size = {15, 17},
         .crop = RandomCrop{.padding = {1, 1, 1, 1}, .pad_if_needed = true, .border = border}});
  }
  transforms.push_back({.size = {40, 30}, .crop = CentreCrop{}, .vertical_flip = 0.5});
  transforms.push_back({.size = {20, 20}, .crop = CentreCrop{Size{26, 22}}});
  transforms.push_back({.size = {20, 22}, .crop = WholeImage{Size{20, 22}}});
  transforms.push_back({.size = {33, 21}, .erasing = {.probability = 1, .value = {0, -1, 2.5F}}});
  transforms.push_back({.size = {21, 33}, .erasing = {.probability = 0.7, .noise = true}});
  for (size_t i = 0; i < transforms.size(); ++i) {
    SCOPED_TRACE(fmt::format("transform {}", i));
    const bool halves = i % 2 == 0;
    BothWays ways(transforms[i], {.dtype = halves ? DType::kFloat16 : DType::kFloat32,
                                  .layout = halves ? Layout::kNhwc : Layout::kNchw});
    for (uint64_t seed = 0; seed < 4; ++seed) {
      // Some images are too small for some borders, both on the host and on the GPU.
      EXPECT_GT(ways.check(files, seed), files.size() / 2);
    }
  }
}

// The crops are given; not all images contain them.
TEST(PrepareGpu, CutsWhatItIsTold) {
  const auto files = make_files();
  BothWays ways({.size = {20, 20}, .vertical_flip = 0.5}, {.dtype = DType::kUint8});
  EXPECT_GT(ways.check(files, 1, FixedCrop{{3, 1, 17, 20}, {20, 20}}), files.size() / 2);
  EXPECT_GT(ways.check(files, 1, FixedCrop{{40, 30, 20, 20}, {20, 20}}), files.size() / 2);
  EXPECT_EQ(ways.check(files, 1, FixedCrop{{0, 0, 1, 1}, {20, 20}}), files.size());
  EXPECT_EQ(ways.check(files, 1, FixedCrop{{0, 0, 137, 1}, {20, 20}}), 0u);
  EXPECT_EQ(ways.check(files, 1, FixedCrop{{5, 5, 0, 7}, {20, 20}}), 0u);
  EXPECT_EQ(ways.check(files, 1, FixedCrop{{~0u, 0, 2, 2}, {20, 20}}), 0u);
}

// The host decodes images that a GPU cannot decode.
TEST(PrepareGpu, LeavesTheRestToTheHost) {
  const std::vector<ByteVector> files = {
      jpeg::make_jpeg({.width = 90, .height = 70, .progressive = true}),
      jpeg::make_jpeg({.width = 90, .height = 70, .components = 4}),
      jpeg::make_jpeg({.width = 200, .height = 200}),  // one long segment
      jpeg::make_jpeg({.width = 50, .height = 50, .optimised = true}),
      {0xFF, 0xD8, 0xFF},
      {},
  };
  BothWays ways({.size = {20, 20}}, {});
  EXPECT_EQ(ways.check(files, 3), 0u);
  BothWays scaled({.size = {4, 4}, .scaled_decode = true}, {});
  scaled.check(make_files(), 3);
}

// With any wrong bytes, the result is the host's pixels or its error, and other samples are
// unharmed.
TEST(PrepareGpu, MeetsDamageAsTheHostDoes) {
  const auto good = make_files();
  Random random(11, Purpose::kTest);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto files = good;
    for (size_t i = 0; i < files.size(); i += 2) {
      ByteVector& file = files[i];
      for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
        // Most of the changed bytes lie after the header.
        const size_t from = random.below(4) == 0 ? 0 : file.size() / 2;
        file[from + random.below(file.size() - from)] = static_cast<uint8_t>(random.below(256));
      }
      if (random.below(8) == 0) file.resize(random.below(file.size()));
    }
    for (const Damaged damaged : {Damaged::kRefuse, Damaged::kDecode}) {
      BothWays ways({.size = {16, 16}}, {.dtype = DType::kUint8}, damaged);
      ways.check(files, seed);
    }
  }
}

// Uses the corpus of the fuzzer, and damaged copies of some of it.
TEST(PrepareGpu, MeetsTheFuzzCorpusAsTheHostDoes) {
  constexpr uint64_t kMostPixels = 1 << 20;
  std::vector<ByteVector> files;
  Random random(13, Purpose::kTest);
  for (const auto& entry : std::filesystem::directory_iterator(FOREBAY_FUZZ_CORPUS_DIR)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const ByteVector file(std::istreambuf_iterator<char>(in), {});
    const auto source = read_header(file);
    if (!source || uint64_t{source->size.width} * source->size.height > kMostPixels) continue;
    files.push_back(file);
    for (int i = 0; i < 20; ++i) {
      files.push_back(file);
      files.back()[random.below(file.size())] = static_cast<uint8_t>(random.below(256));
      const auto damaged = read_header(files.back());
      if (damaged && uint64_t{damaged->size.width} * damaged->size.height > kMostPixels) {
        files.pop_back();
      }
    }
  }
  EXPECT_GT(files.size(), 100u);
  BothWays ways({.size = {11, 9}}, {.dtype = DType::kUint8});
  EXPECT_GT(ways.check(files, 1), 10u);
}

// Needs more samples than one round holds.
TEST(PrepareGpu, GoesOnInSeveralRounds) {
  const std::vector<ByteVector> many(1100, jpeg::make_jpeg({.width = 20, .height = 19}));
  BothWays ways({.size = {16, 16}}, {});
  EXPECT_EQ(ways.check(many, 1), many.size());
  const std::vector<ByteVector> large(
      4, jpeg::make_jpeg({.width = 2200, .height = 2000, .restart = 16}));
  EXPECT_EQ(ways.check(large, 1, FixedCrop{{0, 0, 2200, 2000}, {16, 16}}), large.size());
}

// Stands in for a GPU whose memory is sometimes full. Like on a GPU, part of the old memory is then
// gone too.
class FullQueue final : public gpu::Queue {
 public:
  explicit FullQueue(const uint64_t& fails) : fails_(fails) {}
  base::Result<Memory> reserve(size_t sent, size_t work) override {
    const bool fails = (fails_ >> (calls_++ % 64) & 1) != 0;
    work_ = std::make_unique<uint8_t[]>(work);
    if (sent > sent_.size()) sent_ = ByteVector(sent_.begin(), sent_.end()), sent_.resize(sent);
    if (fails) return base::fail(base::Code::kNoMemory, "GPU: full");
    return Memory{sent_.data(), sent_.data(), work_.get()};
  }
  base::Status run(const gpu::KernelArguments& arguments) override { return host_->run(arguments); }
  Status begin_after(void*) override { return {}; }
  Status order_before(void*) override { return {}; }
  bool is_done() override { return true; }
  base::Status wait(uint32_t* bad) override { return host_->wait(bad); }
  base::Status clear(uint8_t*, size_t) override { return {}; }
  base::Status send(Bytes, uint8_t*) override { return {}; }
  base::Status fetch(const uint8_t*, std::span<uint8_t>) override { return {}; }

 private:
  const uint64_t& fails_;
  size_t calls_ = 0;
  ByteVector sent_;
  std::unique_ptr<uint8_t[]> work_;
  std::unique_ptr<gpu::Queue> host_ = gpu::host_device()->open_queue().value();
};
class FullDevice final : public gpu::Device {
 public:
  explicit FullDevice(const uint64_t& fails) : fails_(fails) {}
  int number() const override { return -1; }
  base::Result<std::unique_ptr<gpu::Queue>> open_queue() override {
    return std::make_unique<FullQueue>(fails_);
  }
  base::Result<std::shared_ptr<uint8_t>> allocate(size_t) override {
    return std::shared_ptr<uint8_t>();
  }

 private:
  const uint64_t& fails_;
};

TEST(PrepareGpu, GoesOnWhereMemoryWasFull) {
  auto files = make_files();
  const auto large = jpeg::make_jpeg({.width = 300, .height = 200, .restart = 16});
  Random random(5, Purpose::kTest);
  uint64_t fails = 0;
  const Transform transform{.size = {16, 16}};
  GpuPreparer gpu(transform, {}, std::make_shared<FullDevice>(fails));
  Preparer host(transform, {});
  const size_t bytes = host.sample_bytes();
  ByteVector expected(bytes);
  uint64_t full = 0;
  for (int round = 0; round < 16; ++round) {
    fails = round % 4 == 3 ? 0 : random.next_u64();
    files.push_back(large);  // needs slightly more room each time
    ByteVector made(files.size() * bytes);
    std::vector<PrepareRequest> requests;
    for (size_t i = 0; i < files.size(); ++i) {
      requests.push_back({.file = files[i],
                          .random = Random(1, Purpose::kAugment, 0, i),
                          .out = made.data() + i * bytes});
    }
    gpu.prepare(requests, true);
    for (const PrepareRequest& request : requests) {
      if (!request.status.ok()) {
        EXPECT_EQ(request.status.code(), base::Code::kNoMemory);
        ++full;
        continue;
      }
      ASSERT_TRUE(host.prepare(request.file, request.random, expected.data()).ok());
      EXPECT_EQ(std::memcmp(request.out, expected.data(), bytes), 0);
    }
    EXPECT_TRUE(fails != 0 || requests[0].status.ok());
  }
  EXPECT_GT(full, 0u);
}

// Later work in the stream finds all samples after begin(), except those that finish() repairs.
TEST(PrepareGpu, HasSamplesAfterItsBeginning) {
  const std::vector<ByteVector> good = {jpeg::make_jpeg({.width = 50, .height = 40, .restart = 2}),
                                        jpeg::make_jpeg({.width = 60, .height = 30})};
  // The last segment of this file lacks everything after its first bytes.
  ByteVector damaged = good[0];
  damaged.resize(damaged.size() - 12);
  damaged.push_back(0xFF);
  damaged.push_back(0xD9);
  const std::vector<Bytes> files = {good[0], Bytes(damaged), Bytes(good[1]).first(300), good[1]};
  const Transform whole{.size = {50, 40}, .crop = CentreCrop{}, .flip = 0};
  Preparer host(whole, {.dtype = DType::kUint8});
  const size_t bytes = host.sample_bytes();
  const auto requests = [&](uint8_t* out) {
    std::vector<PrepareRequest> all;
    for (size_t i = 0; i < files.size(); ++i) {
      all.push_back({.file = files[i], .random = {1, Purpose::kTest}, .out = out + i * bytes});
    }
    return all;
  };
  const auto sample = [&](const ByteVector& samples, size_t i) {
    return Bytes(samples).subspan(i * bytes, bytes);
  };
  ByteVector expected(files.size() * bytes);
  auto on_host = requests(expected.data());
  host.prepare(on_host);
  const auto is_zero = [](Bytes all) {
    return std::ranges::all_of(all, [](uint8_t byte) { return byte == 0; });
  };
  for (const auto& device : devices()) {
    SCOPED_TRACE(device->number());
    GpuPreparer gpu(whole, {.dtype = DType::kUint8}, device);
    const DeviceBytes memory(*device, ByteVector(expected.size(), 0xA5));
    auto on_gpu = requests(memory.data());
    gpu.begin(on_gpu, true);
    // Copies wait for the default stream of CUDA.
    EXPECT_TRUE(gpu.order_before(nullptr).ok());
    const ByteVector begun = memory.content();
    EXPECT_TRUE(std::ranges::equal(sample(begun, 0), sample(expected, 0)));
    EXPECT_TRUE(is_zero(sample(begun, 1)));
    EXPECT_TRUE(is_zero(sample(begun, 2)));
    EXPECT_FALSE(on_gpu[2].status.ok());
    EXPECT_TRUE(std::ranges::equal(sample(begun, 3), sample(expected, 3)));
    EXPECT_TRUE(gpu.is_done());
    gpu.finish(on_gpu);
    const ByteVector finished = memory.content();
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(on_gpu[i].status.message(), on_host[i].status.message());
      if (!on_host[i].status.ok()) continue;
      EXPECT_TRUE(std::ranges::equal(sample(finished, i), sample(expected, i)));
    }
  }
}

}  // namespace
}  // namespace forebay::image
