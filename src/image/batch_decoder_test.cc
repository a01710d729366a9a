// Batches of files in memory and of resident files, made by the host and by the kernels.
#include "image/batch_decoder.h"

#include <gtest/gtest.h>

#include "image/testing/devices.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

constexpr Transform kTransform{.size = {20, 16}};
constexpr TensorOptions kTensor{.dtype = DType::kUint8};
constexpr size_t kSampleBytes = size_t{20} * 16 * 3;

std::vector<ByteVector> make_files() {
  std::vector<ByteVector> files;
  for (const auto& factors : jpeg::kLumaFactors) {
    files.push_back(jpeg::make_jpeg({.width = 90,
                                     .height = 70,
                                     .across = factors[0],
                                     .down = factors[1],
                                     .restart = static_cast<int>(1 + files.size())},
                                    files.size()));
  }
  files.push_back(jpeg::make_jpeg({.width = 50, .height = 60, .progressive = true}));
  files.push_back(jpeg::make_jpeg({.width = 24, .height = 24}));
  return files;
}

struct Made {
  ByteVector samples;
  std::vector<Status> statuses;
};

// Makes samples of files in the memory of a device, or with the host's own code.
class Maker {
 public:
  explicit Maker(std::shared_ptr<gpu::Device> device)
      : device_(std::move(device)),
        memory_of_(device_ == nullptr ? gpu::host_device() : device_),
        decoder_(BatchDecoder::make(kTransform, kTensor, device_, 2).value()) {}

  Made make(const std::vector<ByteVector>& files) const {
    auto all = requests(files.size());
    for (size_t i = 0; i < files.size(); ++i) all[i].file = files[i];
    return make(std::move(all));
  }
  Made make_stored(const std::vector<ByteVector>& files) const {
    const std::vector<Bytes> bytes(files.begin(), files.end());
    const auto stored = decoder_->store(bytes).value();
    auto all = requests(files.size());
    for (size_t i = 0; i < files.size(); ++i) {
      all[i].file = stored[i]->file;
      all[i].stored = stored[i]->jpeg ? &*stored[i]->jpeg : nullptr;
    }
    return make(std::move(all));
  }

 private:
  static std::vector<PrepareRequest> requests(size_t count) {
    std::vector<PrepareRequest> all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back({.file = {}, .random = Random(3, Purpose::kAugment, 0, i)});
    }
    return all;
  }
  Made make(std::vector<PrepareRequest> all) const {
    const DeviceBytes memory(*memory_of_, ByteVector(all.size() * kSampleBytes, 0xA5));
    for (size_t i = 0; i < all.size(); ++i) all[i].out = memory.data() + i * kSampleBytes;
    Made made;
    const auto pending = decoder_->begin(std::move(all), nullptr);
    for (const PrepareRequest& request : pending->finish()) {
      made.statuses.push_back(request.status);
    }
    made.samples = memory.content();
    return made;
  }

  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<gpu::Device> memory_of_;
  std::shared_ptr<BatchDecoder> decoder_;
};

void expect_equal(const Made& a, const Made& b) {
  EXPECT_EQ(a.samples, b.samples);
  ASSERT_EQ(a.statuses.size(), b.statuses.size());
  for (size_t i = 0; i < a.statuses.size(); ++i) {
    EXPECT_EQ(a.statuses[i].code(), b.statuses[i].code()) << i;
  }
}

TEST(BatchDecoder, StoredFilesGiveTheSameSamples) {
  const auto files = make_files();
  const Maker here(nullptr);
  const Made expected = here.make(files);
  expect_equal(here.make_stored(files), expected);
  for (const auto& device : devices()) {
    const Maker there(device);
    expect_equal(there.make(files), expected);
    expect_equal(there.make_stored(files), expected);
  }
}

// Threads make the groups of several batches at the same time, and some batches are abandoned.
TEST(BatchDecoder, BatchesAreMadeSideBySide) {
  const auto some = make_files();
  std::vector<ByteVector> files;
  while (files.size() < 100) files.push_back(some[files.size() % some.size()]);
  const Made expected = Maker(nullptr).make(files);
  for (const auto& device : {std::shared_ptr<gpu::Device>(), gpu::host_device()}) {
    const auto memory_of = device == nullptr ? gpu::host_device() : device;
    const auto decoder = BatchDecoder::make(kTransform, kTensor, device, 3).value();
    std::vector<DeviceBytes> memories;
    std::vector<std::unique_ptr<BatchDecoder::Pending>> all;
    for (int batch = 0; batch < 8; ++batch) {
      memories.emplace_back(*memory_of, ByteVector(files.size() * kSampleBytes, 0xA5));
      std::vector<PrepareRequest> requests;
      for (size_t i = 0; i < files.size(); ++i) {
        requests.push_back({.file = files[i],
                            .random = Random(3, Purpose::kAugment, 0, i),
                            .out = memories.back().data() + i * kSampleBytes});
      }
      all.push_back(decoder->begin(std::move(requests), nullptr));
      if (batch % 3 == 0) all.back() = nullptr;
    }
    for (size_t batch = all.size(); batch-- > 0;) {
      if (all[batch] == nullptr) continue;
      ASSERT_TRUE(all[batch]->order_before(nullptr).ok());
      EXPECT_EQ(memories[batch].content(), expected.samples);
      for (const PrepareRequest& request : all[batch]->finish()) EXPECT_TRUE(request.status.ok());
    }
  }
}

TEST(BatchDecoder, DamageOfStoredFilesIsMetAsElsewhere) {
  const auto good = make_files();
  const Maker here(nullptr);
  Random random(17, Purpose::kTest);
  for (int round = 0; round < 100; ++round) {
    auto files = good;
    for (size_t i = 0; i < files.size(); i += 2) {
      for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
        const size_t from = random.below(8) == 0 ? 0 : files[i].size() / 2;
        files[i][from + random.below(files[i].size() - from)] =
            static_cast<uint8_t>(random.below(256));
      }
    }
    const Made expected = here.make(files);
    for (const auto& device : devices()) expect_equal(Maker(device).make_stored(files), expected);
  }
}

TEST(BatchDecoder, ARestoredFileIsTheFile) {
  for (const ByteVector& file : make_files()) {
    ByteVector bits(3);
    const auto stored = jpeg::gpu::Plan().store(file, read_header(file)->jpeg, &bits);
    if (!stored) continue;
    EXPECT_EQ(jpeg::gpu::Plan::restore(*stored, Bytes(bits).last(stored->bits_bytes)), file);
  }
}

}  // namespace
}  // namespace forebay::image
