#include "store/view.h"

#include <gmock/gmock.h>

#include "base/random.h"
#include "io/testing/memory.h"
#include "store/testing/dataset_samples.h"

namespace forebay::store {
namespace {

using base::Code;
using ::testing::HasSubstr;
using Samples = std::vector<uint64_t>;

class ViewTest : public testing::Test {
 protected:
  ViewTest() {
    EXPECT_TRUE(write_dataset(fs_, kPath, make_chunks()).ok());
    base_ = open_packed(fs_, kPath).value();
  }

  // Expects that sample `sample` of `view` is sample `expected` of `dataset`.
  void expect_same(const Dataset& view, uint64_t sample, const Dataset& dataset,
                   uint64_t expected) const {
    const Location location = view.location(sample);
    ByteVector file;
    ASSERT_TRUE(view.read_file(location, &file).ok());
    EXPECT_EQ(base::as_text(file), dataset.key(expected).value());  // each image is its key
    EXPECT_EQ(view.key(sample).value(), dataset.key(expected).value());
    EXPECT_EQ(location.label, dataset.location(expected).label);
    EXPECT_EQ(location.chunk, view.chunk_of(sample));
    const ChunkInfo& chunk = view.chunk(location.chunk);
    EXPECT_GE(sample, chunk.first_sample);
    EXPECT_LT(sample, chunk.first_sample + chunk.samples);
    EXPECT_LE(chunk.offset, location.offset);
    EXPECT_GE(chunk.offset + chunk.bytes, location.offset + location.length);
    EXPECT_EQ(chunk.id, dataset.chunk(dataset.chunk_of(expected)).id);
    EXPECT_EQ(view.read_stored_index(location.chunk, {}).value(),
              dataset.read_chunk_index(dataset.chunk_of(expected)).value());
    EXPECT_EQ(view.read_chunk_index(location.chunk).error().code(), Code::kUnsupported);
  }

  io::MemoryFileSystem fs_;
  std::shared_ptr<const Dataset> base_;
};

TEST_F(ViewTest, ASelectionHasTheSamplesInTheirOrder) {
  base::Random random(7, base::Purpose::kTest);
  for (int round = 0; round < 50; ++round) {
    Samples samples(random.below(25));
    for (uint64_t& sample : samples) sample = random.below(kSamples);
    const auto view = select(base_, samples).value();
    ASSERT_EQ(view->sample_count(), samples.size());
    for (size_t i = 0; i < samples.size(); ++i) expect_same(*view, i, *base_, samples[i]);
    for (uint64_t sample = 0; sample < kSamples; ++sample) {
      const auto first = std::ranges::find(samples, sample);
      const auto found = view->find(base_->key(sample).value()).value();
      EXPECT_EQ(found.has_value(), first != samples.end());
      EXPECT_EQ(found.value_or(0),
                first == samples.end() ? 0u : static_cast<uint64_t>(first - samples.begin()));
    }
  }
}

TEST_F(ViewTest, ASelectionSaysWhatItSelects) {
  EXPECT_FALSE(base_->selected());
  const auto view = select(select(base_, {5, 2, 7}).value(), {2, 0}).value();
  const auto outer = view->selected();
  ASSERT_TRUE(outer);
  EXPECT_TRUE(std::ranges::equal(outer->samples, Samples({2, 0})));
  const auto inner = outer->base->selected();
  ASSERT_TRUE(inner);
  EXPECT_TRUE(std::ranges::equal(inner->samples, Samples({5, 2, 7})));
  EXPECT_EQ(inner->base, base_);
  EXPECT_FALSE(concat({base_, view}).value()->selected());
}

TEST_F(ViewTest, SamplesThatLieTogetherAreReadTogether) {
  const auto chunks = [&](const Samples& samples) {
    return select(base_, samples).value()->chunk_count();
  };
  EXPECT_EQ(chunks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 3u);  // the same as the dataset
  EXPECT_EQ(chunks({0, 2, 6, 9}), 2u);
  EXPECT_EQ(chunks({2, 0}), 2u);  // not in their order
  EXPECT_EQ(chunks({2, 2}), 2u);
  EXPECT_EQ(chunks({}), 0u);
}

TEST_F(ViewTest, FingerprintIsOfTheBaseAndTheSamples) {
  const auto fingerprint = [&](const Samples& samples) {
    return select(base_, samples).value()->fingerprint();
  };
  EXPECT_EQ(fingerprint({1, 2}), fingerprint({1, 2}));
  EXPECT_NE(fingerprint({1, 2}), fingerprint({2, 1}));
  EXPECT_NE(fingerprint({0}), select(select(base_, {1}).value(), {0}).value()->fingerprint());
  EXPECT_NE(concat({base_}).value()->fingerprint(), fingerprint({}));
  EXPECT_NE(concat({base_}).value()->fingerprint(), concat({base_, base_}).value()->fingerprint());
}

TEST_F(ViewTest, ASampleThatIsNotThereIsRefused) {
  const auto view = select(base_, {3, kSamples});
  EXPECT_EQ(view.error().code(), Code::kInvalid);
  EXPECT_THAT(view.error().message(), HasSubstr("no sample 10; it has 10 samples"));
}

TEST_F(ViewTest, AConcatenationHasAllInOrderWithTheClassesOfAll) {
  const Schema other{.fields = kSchema.fields, .classes = {"dog", "emu"}};
  const Chunk chunk = make_chunk(20, 6, other);
  ASSERT_TRUE(fs_.put(chunk_path("/other", chunk.info.id), chunk.bytes).ok());
  SnapshotBuilder builder(fs_, "/other", other);
  ASSERT_TRUE(builder.add_chunk(chunk.info, chunk.index).ok());
  ASSERT_TRUE(builder.commit());
  const auto second = open_packed(fs_, "/other").value();

  const auto view = concat({base_, second, select(base_, {5}).value()}).value();
  ASSERT_EQ(view->sample_count(), kSamples + 6 + 1);
  EXPECT_EQ(view->schema().classes, (std::vector<std::string>{"cat", "dog", "emu"}));
  for (uint64_t i = 0; i < kSamples; ++i) expect_same(*view, i, *base_, i);
  expect_same(*view, kSamples + 6, *base_, 5);
  for (uint64_t i = 0; i < 6; ++i) {
    const Location location = view->location(kSamples + i);
    const int32_t there = second->location(i).label;
    EXPECT_EQ(location.label, there < 0 ? there : there + 1);  // dog is 1 here, emu 2
    EXPECT_EQ(view->chunk_label(location.chunk), second->chunk_label(0));
    EXPECT_EQ(view->find(second->key(i).value()).value(), kSamples + i);
  }
  EXPECT_EQ(view->find("nobody").value(), std::nullopt);
  // Several parts have this key, and only a later part's sample was chosen.
  const std::string key = base_->key(5).value();
  EXPECT_EQ(view->find_all(key).value(), (Samples{5, kSamples + 6}));
  EXPECT_EQ(select(view, {7, kSamples + 6}).value()->find(key).value(), 1u);
}

TEST_F(ViewTest, NumbersAndNamesDoNotMix) {
  const Schema numbers{.fields = kSchema.fields, .classes = {}};
  SnapshotBuilder builder(fs_, "/numbers", numbers);
  ASSERT_TRUE(builder.commit());
  const auto view = concat({base_, open_packed(fs_, "/numbers").value()});
  EXPECT_EQ(view.error().code(), Code::kInvalid);
  EXPECT_THAT(view.error().message(), HasSubstr("/numbers: only one of them has class names"));
}

}  // namespace
}  // namespace forebay::store
