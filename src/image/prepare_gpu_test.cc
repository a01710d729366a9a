// Samples made by the GPU's kernels, on the host and where there is a GPU on that, are those that
// the host's own way makes, bit for bit.
#include "image/prepare_gpu.h"

#include <gtest/gtest.h>
#ifdef FOREBAY_CUDA
#include <cuda_runtime_api.h>
#endif

#include "image/test_images.h"
#include "jpeg/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

// The host in place of a GPU, and the GPU where there is one.
std::vector<std::shared_ptr<gpu::Device>> devices() {
  std::vector<std::shared_ptr<gpu::Device>> all{gpu::host_device()};
  if (const auto gpu = gpu::open_device(0)) all.push_back(*gpu);
  return all;
}

// Memory of a device.
class DeviceBytes {
 public:
  DeviceBytes(gpu::Device& device, const ByteVector& content)
      : bytes_(content.size()), memory_(device.allocate(bytes_).value()) {
    EXPECT_TRUE(device.open_queue().value()->copy(content, memory_.get()).ok());
  }
  uint8_t* data() const { return memory_.get(); }
  ByteVector content() const {
    ByteVector out(bytes_);
#ifdef FOREBAY_CUDA
    // Of the host's memory too, where there is a driver.
    if (cudaMemcpy(out.data(), data(), bytes_, cudaMemcpyDefault) == cudaSuccess) return out;
#endif
    std::memcpy(out.data(), data(), bytes_);
    return out;
  }

 private:
  size_t bytes_;
  std::shared_ptr<uint8_t> memory_;
};

// What is prepared, the host's own way and by the kernels.
class BothWays {
 public:
  BothWays(const Transform& transform, const TensorOptions& options) : host_(transform, options) {
    for (auto& device : devices()) {
      ways_.push_back({device, std::make_unique<GpuPreparer>(transform, options, device)});
    }
  }

  // Gives how many of the files the kernels made.
  uint64_t check(const std::vector<ByteVector>& files, uint64_t seed) {
    const size_t bytes = host_.sample_bytes();
    ByteVector expected(files.size() * bytes, 0xA5);
    auto on_host = requests(files, seed, expected.data());
    host_.prepare(on_host);
    uint64_t made = 0;
    for (const Way& way : ways_) {
      const DeviceBytes memory(*way.device, ByteVector(expected.size(), 0xA5));
      auto on_gpu = requests(files, seed, memory.data());
      const uint64_t before = way.preparer->made_on_gpu();
      way.preparer->prepare(on_gpu, true);
      made = way.preparer->made_on_gpu() - before;
      const ByteVector got = memory.content();
      for (size_t i = 0; i < files.size(); ++i) {
        SCOPED_TRACE(fmt::format("device {}, file {}, seed {}", way.device->number(), i, seed));
        EXPECT_EQ(on_host[i].status.code(), on_gpu[i].status.code());
        EXPECT_EQ(on_host[i].status.message(), on_gpu[i].status.message());
        if (!on_host[i].status.ok()) continue;
        EXPECT_EQ(std::memcmp(expected.data() + i * bytes, got.data() + i * bytes, bytes), 0);
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
                                       uint8_t* out) const {
    std::vector<PrepareRequest> all;
    for (size_t i = 0; i < files.size(); ++i) {
      all.push_back({.file = files[i],
                     .random = Random(seed, Purpose::kAugment, 0, i),
                     .out = out + i * host_.sample_bytes()});
    }
    return all;
  }

  Preparer host_;
  std::vector<Way> ways_;
};

// Of all kinds of sampling that a GPU takes, sizes and restart intervals.
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

// All crops, borders, flips and erasing.
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
  transforms.push_back({.size = {33, 21}, .erasing = {.probability = 1, .value = {0, -1, 2.5F}}});
  for (size_t i = 0; i < transforms.size(); ++i) {
    SCOPED_TRACE(fmt::format("transform {}", i));
    BothWays ways(transforms[i], {});
    for (uint64_t seed = 0; seed < 4; ++seed) {
      // Some images are too small for some borders, on the host as on the GPU.
      EXPECT_GT(ways.check(files, seed), files.size() / 2);
    }
  }
}

// What a GPU does not decode the host does.
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
  BothWays noise({.size = {20, 20}, .erasing = {.probability = 1, .noise = true}}, {});
  EXPECT_LT(noise.check(make_files(), 3), 10u);  // where nothing is erased
  BothWays scaled({.size = {4, 4}, .scaled_decode = true}, {});
  scaled.check(make_files(), 3);
}

// Any bytes may be wrong: the host's pixels, or its error, and the others' samples unharmed.
TEST(PrepareGpu, MeetsDamageAsTheHostDoes) {
  const auto good = make_files();
  Random random(11, Purpose::kTest);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto files = good;
    for (size_t i = 0; i < files.size(); i += 2) {
      ByteVector& file = files[i];
      for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
        // Mostly behind the header.
        const size_t from = random.below(4) == 0 ? 0 : file.size() / 2;
        file[from + random.below(file.size() - from)] = static_cast<uint8_t>(random.below(256));
      }
      if (random.below(8) == 0) file.resize(random.below(file.size()));
    }
    BothWays ways({.size = {16, 16}}, {.dtype = DType::kUint8});
    ways.check(files, seed);
  }
}

// More than go at once.
TEST(PrepareGpu, GoesOnInSeveralRounds) {
  const std::vector<ByteVector> files(1100, jpeg::make_jpeg({.width = 20, .height = 19}));
  BothWays ways({.size = {16, 16}}, {});
  EXPECT_EQ(ways.check(files, 1), files.size());
}

}  // namespace
}  // namespace forebay::image
