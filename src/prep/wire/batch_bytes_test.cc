#include "prep/wire/batch_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/checksum.h"
#include "base/random.h"
#include "feed/testing/feed_fixture.h"
#include "feed/testing/remote_fixture.h"
#include "image/testing/png_samples.h"
#include "prep/wire/batch_header.h"
#include "prep/wire/job.h"
#include "store/field_files.h"
#include "store/format/target_fields.h"

namespace forebay::prep {
namespace {

using base::Code;
using feed::Batch;
using feed::FeedOptions;
using feed::Images;

// The bytes as they arrive, in memory that begins at a multiple of the tensor's alignment.
struct Received {
  std::shared_ptr<uint8_t> memory;
  uint64_t bytes = 0;
};

Received received(Bytes bytes) {
  auto buffer = std::make_shared<io::LargeBuffer>(std::max<size_t>(bytes.size(), 1));
  std::ranges::copy(bytes, buffer->data());
  return {std::shared_ptr<uint8_t>(buffer, buffer->data()), bytes.size()};
}

ByteVector joined(const BatchBytes& sent) {
  ByteVector out = sent.head;
  for (const Bytes piece : sent.rest) out.insert(out.end(), piece.begin(), piece.end());
  EXPECT_EQ(out.size(), sent.bytes);
  return out;
}

Result<ReceivedBatch> decoded(Bytes bytes, const Expected& expected) {
  const Received all = received(bytes);
  return decode_batch(all.memory, all.bytes, expected);
}

Expected expected_of(const FeedOptions& options, const Batch& batch) {
  Expected out = expected_batches(options, batch.samples.size());
  out.job = job_name("a job");
  out.epoch = batch.epoch;
  out.step = batch.step;
  return out;
}

ByteVector encoded(const Batch& batch, const std::vector<feed::BadSample>& bad = {}) {
  return joined(encode_batch(batch, bad, job_name("a job")));
}

bool same(const image::OwnSize& a, const image::OwnSize& b) {
  return a.size == b.size && a.bytes == b.bytes;
}
bool same(const feed::SampleTargets& a, const feed::SampleTargets& b) {
  return a.first_object == b.first_object && a.objects.boxes == b.objects.boxes &&
         a.objects.points == b.objects.points && same(a.masks, b.masks) &&
         same(a.labels, b.labels) && a.drawn_on == b.drawn_on;
}
void expect_same(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.images_bytes, b.images_bytes);
  EXPECT_EQ(a.images == nullptr, b.images == nullptr);
  EXPECT_TRUE(std::equal(a.images, a.images + a.images_bytes, b.images));
  EXPECT_EQ(a.size, b.size);
  const auto equal = [](const auto& x, const auto& y) { return same(x, y); };
  EXPECT_TRUE(std::ranges::equal(a.whole, b.whole, equal));
  EXPECT_TRUE(std::ranges::equal(a.targets, b.targets, equal));
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.drawn_for, b.drawn_for);
  EXPECT_EQ(a.valid, b.valid);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.step, b.step);
}

// Corrects the checksums of changed bytes.
ByteVector sealed(ByteVector bytes) {
  auto header = base::load_le<BatchHeader>(bytes.data());
  const size_t front = std::min<uint64_t>(header.front_bytes, bytes.size());
  header.tensor_crc32c = base::crc32c(Bytes(bytes).subspan(front));
  base::store_le(bytes.data(), header);
  header.front_crc32c = front_crc32c(Bytes(bytes).first(std::max(front, sizeof header)), {});
  base::store_le(bytes.data(), header);
  return bytes;
}

class BatchBytesTest : public feed::FeedTest {
 protected:
  // Sends all batches of an epoch, and counts the samples that are not masked.
  static uint64_t round_trip(std::shared_ptr<const store::Dataset> dataset,
                             const FeedOptions& options) {
    const auto feed = feed::Feed::open(std::move(dataset), options).value();
    EXPECT_TRUE(feed->start({.epoch = 3, .position = 0}).ok());
    uint64_t valid = 0;
    while (const auto batch = feed->next().value()) {
      const std::vector<feed::BadSample> bad = feed->state().bad;
      const ByteVector bytes = encoded(*batch, bad);
      const Received all = received(bytes);
      auto back = decode_batch(all.memory, all.bytes, expected_of(options, *batch));
      EXPECT_TRUE(back) << back.error().message();
      if (!back) return 0;
      expect_same(*batch, *back->batch);
      EXPECT_EQ(back->bad, bad);
      EXPECT_EQ(encoded(*back->batch, back->bad), bytes);
      if (batch->images != nullptr) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(back->batch->images) % kTensorAlignment, 0u);
        EXPECT_EQ(back->batch->images + batch->images_bytes, all.memory.get() + all.bytes);
      }
      valid += static_cast<uint64_t>(std::ranges::count(batch->valid, 1));
    }
    return valid;
  }

  // A batch of three small samples, with their files and a bad sample.
  static FeedOptions small() {
    FeedOptions out = validation();
    out.global_batch = 3;
    out.files = true;
    out.transform.size = image::square(4);
    return out;
  }
  std::shared_ptr<const Batch> first_batch(const FeedOptions& options) const {
    const auto feed = open(options);
    EXPECT_TRUE(feed->start({}).ok());
    return feed->next().value();
  }
};

const std::vector<feed::BadSample> kBad = {{.sample = 7, .chunk = "c", .key = "k", .reason = "r"}};

TEST_F(BatchBytesTest, EveryKindOfBatchComesBack) {
  for (const Images images : {Images::kNone, Images::kTensor, Images::kOwnSize, Images::kWhole}) {
    for (const image::DType dtype : {image::DType::kUint8, image::DType::kBfloat16}) {
      FeedOptions wanted = options();
      wanted.images = images;
      wanted.files = dtype == image::DType::kBfloat16;
      wanted.tensor.dtype = dtype;
      wanted.world_size = 2;
      wanted.rank = 1;
      EXPECT_EQ(round_trip(dataset_, wanted), dataset_->sample_count() / feed::kBatch * 12);
    }
  }
}

TEST_F(BatchBytesTest, ImagesOfDrawnSizesComeBack) {
  FeedOptions wanted = options();
  wanted.images = Images::kOwnSize;
  wanted.tensor.dtype = image::DType::kFloat32;
  wanted.transform.size = {};
  wanted.transform.crop = image::WholeImage{};
  EXPECT_GT(round_trip(dataset_, wanted), 0u);
}

TEST_F(BatchBytesTest, MaskedAndBadSamplesComeBack) {
  dataset_->damage(3);
  dataset_->make_undecodable(20);
  FeedOptions wanted = validation();
  wanted.files = true;
  EXPECT_EQ(round_trip(dataset_, wanted), dataset_->sample_count() - 2);
  wanted.images = Images::kWhole;
  EXPECT_EQ(round_trip(dataset_, wanted), dataset_->sample_count() - 2);
  wanted.replace_bad = true;
  EXPECT_EQ(round_trip(dataset_, wanted), dataset_->sample_count());
}

// Boxes, keypoints, outlines and maps of labels of packed photographs.
TEST_F(BatchBytesTest, TargetsComeBack) {
  constexpr uint32_t kImages = 20;
  io::MemoryFileSystem fs;
  for (uint32_t i = 0; i < kImages; ++i) {
    const jpeg::Sample sample{.width = 60 + i, .height = 40, .quality = 80};
    store::put(fs, fmt::format("images/{:03}.jpg", i), jpeg::make_jpeg(sample, i));
    store::put(fs, fmt::format("masks/{:03}.png", i), image::grey_png(60 + i, 40, i));
  }
  store::PackOptions pack;
  pack.threads = 1;
  pack.masks = "masks";
  ASSERT_TRUE(store::pack(fs, "images", fs, "set", pack));
  const auto dataset = store::open_packed(fs, "set").value();
  feed::Targets targets;
  targets.first = {0};
  targets.points_each = 1;
  targets.outlines = feed::Outlines{{0}, {0}, {}, {}};
  for (uint32_t i = 0; i < kImages; ++i) {
    for (uint32_t object = 0; object < i % 4; ++object) {
      targets.boxes.push_back({1, 2, 30, 35});
      targets.points.push_back({5, 6});
      feed::Outlines& outlines = *targets.outlines;
      for (const int32_t corner : {0, 0, 3000, 0, 0, 4000}) outlines.numbers.push_back(corner);
      outlines.is_runs.push_back(0);
      outlines.first_number.push_back(outlines.numbers.size());
      outlines.first_part.push_back(outlines.is_runs.size());
    }
    targets.first.push_back(targets.boxes.size());
    targets.map_of.push_back(i);
  }
  FeedOptions wanted = options();
  wanted.global_batch = 6;
  wanted.drop_last = false;
  wanted.targets = std::make_shared<const feed::Targets>(targets);
  EXPECT_EQ(round_trip(dataset, wanted), kImages);  // without maps of labels
  targets.maps = store::field_files(dataset, std::string(store::kMaskFields[0]));
  wanted.targets = std::make_shared<const feed::Targets>(targets);
  EXPECT_EQ(round_trip(dataset, wanted), kImages);
  wanted.images = Images::kOwnSize;
  EXPECT_EQ(round_trip(dataset, wanted), kImages);
  targets.outlines.reset();
  wanted.targets = std::make_shared<const feed::Targets>(targets);
  EXPECT_EQ(round_trip(dataset, wanted), kImages);
}

TEST_F(BatchBytesTest, TheTensorIsNeitherCopiedWhenSentNorWhenReceived) {
  const auto batch = first_batch(small());
  const BatchBytes sent = encode_batch(*batch, {}, "");
  EXPECT_EQ(sent.rest.back().data(), batch->images);
  const bool has_file = std::ranges::any_of(
      sent.rest, [&](Bytes piece) { return piece.data() == batch->files[1].data(); });
  EXPECT_TRUE(has_file);
}

TEST_F(BatchBytesTest, TheMemoryLivesAsLongAsTheBatch) {
  const auto batch = first_batch(small());
  Received all = received(encoded(*batch));
  const std::weak_ptr<uint8_t> memory = all.memory;
  auto back = decode_batch(std::move(all.memory), all.bytes, expected_of(small(), *batch)).value();
  EXPECT_FALSE(memory.expired());
  back = {};
  EXPECT_TRUE(memory.expired());
}

TEST_F(BatchBytesTest, EveryFlippedByteIsNoticed) {
  const auto batch = first_batch(small());
  ByteVector bytes = encoded(*batch, kBad);
  const Expected expected = expected_of(small(), *batch);
  ASSERT_TRUE(decoded(bytes, expected));
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const uint8_t flip : ByteVector{1, 0x80, 0xff}) {
      bytes[at] ^= flip;
      EXPECT_EQ(base::status_of(decoded(bytes, expected)).code(), Code::kCorrupt) << at;
      bytes[at] ^= flip;
    }
  }
}

TEST_F(BatchBytesTest, EveryTruncationIsNoticed) {
  const auto batch = first_batch(small());
  const ByteVector bytes = encoded(*batch, kBad);
  const Expected expected = expected_of(small(), *batch);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Bytes part = Bytes(bytes).first(length);
    EXPECT_EQ(base::status_of(decoded(part, expected)).code(), Code::kCorrupt) << length;
    if (length < sizeof(BatchHeader)) continue;
    const auto with_checksums = sealed({part.begin(), part.end()});
    EXPECT_EQ(base::status_of(decoded(with_checksums, expected)).code(), Code::kCorrupt) << length;
  }
  ByteVector longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(base::status_of(decoded(longer, expected)).code(), Code::kCorrupt);
}

TEST_F(BatchBytesTest, AnotherBatchThanTheExpectedOneIsNoticed) {
  const auto batch = first_batch(small());
  const ByteVector bytes = encoded(*batch);
  const Expected expected = expected_of(small(), *batch);
  const std::vector<std::function<void(Expected&)>> changes = {
      [](Expected& e) { e.job = job_name("another job"); },
      [](Expected& e) { e.epoch = 1; },
      [](Expected& e) { e.step = 1; },
      [](Expected& e) { e.samples = 4; },
      [](Expected& e) { e.files = false; },
      [](Expected& e) { e.images = Images::kWhole; },
      [](Expected& e) { e.targets = std::make_shared<feed::Targets>(); },
      [](Expected& e) { e.size.width = 5; },
      [](Expected& e) { e.tensor_bytes += 1; },
      [](Expected& e) { e.dataset_samples = 2; },
  };
  ASSERT_TRUE(decoded(bytes, expected));
  for (size_t i = 0; i < changes.size(); ++i) {
    Expected changed = expected;
    changes[i](changed);
    const Status status = base::status_of(decoded(bytes, changed));
    EXPECT_EQ(status.code(), Code::kCorrupt) << i;
    EXPECT_NE(status.message().find("of epoch"), std::string::npos) << status.message();
  }
}

// A prep server that lies sends correct checksums.
TEST_F(BatchBytesTest, LiesWithRightChecksumsAreErrorsOrOtherBatches) {
  for (const Images images : {Images::kTensor, Images::kWhole, Images::kOwnSize}) {
    FeedOptions wanted = small();
    wanted.images = images;
    const auto batch = first_batch(wanted);
    const ByteVector bytes = encoded(*batch, kBad);
    const Expected expected = expected_of(wanted, *batch);
    base::Random random(static_cast<uint64_t>(images), base::Purpose::kTest);
    int accepted = 0;
    for (int round = 0; round < 5000; ++round) {
      ByteVector changed = bytes;
      for (uint64_t count = 1 + random.below(3); count > 0; --count) {
        // Most bytes that matter are near the beginning.
        const size_t at = random.below(random.below(2) == 0 ? 240 : changed.size());
        changed[at] = static_cast<uint8_t>(random.below(2) == 0 ? 255 : random.next_u32());
      }
      changed = sealed(std::move(changed));
      const auto back = decoded(changed, expected);
      if (!back) {
        EXPECT_EQ(back.error().code(), Code::kCorrupt);
        continue;
      }
      ++accepted;
      EXPECT_EQ(encoded(*back->batch, back->bad), changed);
    }
    EXPECT_GT(accepted, 50);
    EXPECT_LT(accepted, 4500);
  }
}

TEST_F(BatchBytesTest, LongReasonsAreCut) {
  const auto batch = first_batch(small());
  std::vector<feed::BadSample> bad = kBad;
  bad[0].reason = std::string(base::kBadReasonBytesMax + 1, 'x');
  const auto back = decoded(encoded(*batch, bad), expected_of(small(), *batch));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->bad[0].reason.size(), base::kBadReasonBytesMax);
}

}  // namespace
}  // namespace forebay::prep
