// Which bytes of files are asked for: the pure part, without a feed.
#include "feed/read/region_plan.h"

#include <gtest/gtest.h>

#include "feed/read/slicer.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::feed {
namespace {

using base::Bytes;
using base::ByteVector;

constexpr uint64_t kOffset = 5120;  // where the image lies in its chunk

struct Image {
  jpeg::Rewritten file;
  store::ChunkIndex index;
};

Image make_image(const jpeg::Sample& sample, const jpeg::RewriteOptions& options = {}) {
  Image out{.file = jpeg::rewrite(jpeg::make_jpeg(sample), options).value(), .index = {}};
  out.index.schema.fields = {{"jpg", store::FieldKind::kImage}};
  store::StoredFile stored{.field = 0,
                           .suffix = "jpg",
                           .offset = kOffset,
                           .length = out.file.file.size(),
                           .width = sample.width,
                           .height = sample.height,
                           .subsampling = out.file.header.subsampling(),
                           .restart = out.file.index};
  out.index.samples.push_back({.key = "a", .source_path = "a.jpg", .files = {stored}});
  return out;
}

Bytes header_of(const Image& image) {
  return Bytes(image.file.file).first(image.file.index.header_bytes);
}

TEST(RegionPlan, AHeaderIsForeseenForEverySubsampling) {
  for (const auto& [across, down, components] :
       {std::tuple{1, 1, 3}, {2, 1, 3}, {1, 2, 3}, {2, 2, 3}, {4, 1, 3}, {4, 2, 3}, {1, 1, 1}}) {
    const Image image = make_image(
        {.width = 300, .height = 220, .components = components, .across = across, .down = down});
    const IndexedChunk chunk(image.index);
    const IndexedImage* indexed = chunk.image(kOffset, image.file.file.size());
    ASSERT_NE(indexed, nullptr);
    const auto expected = expected_header(*indexed);
    ASSERT_TRUE(expected) << across << "x" << down;
    const jpeg::Header& real = image.file.header;
    EXPECT_EQ(expected->mcu_width(), real.mcu_width());
    EXPECT_EQ(expected->mcu_height(), real.mcu_height());
    EXPECT_EQ(expected->restart_interval, real.restart_interval);
    EXPECT_TRUE(fits(real, *indexed));
    for (const base::Rect& region : {base::Rect{0, 0, 50, 50}, base::Rect{117, 95, 60, 33}}) {
      EXPECT_EQ(jpeg::segments_for_region(*expected, region),
                jpeg::segments_for_region(real, region));
    }
  }
}

TEST(RegionPlan, AnUnusualIntervalIsReadAsAWholeUntilItsHeaderIsKnown) {
  const Image image = make_image({.width = 300, .height = 220}, {.restart_interval = 5});
  const IndexedChunk chunk(image.index);
  const IndexedImage& indexed = *chunk.image(kOffset, image.file.file.size());
  const base::Rect region{10, 10, 40, 40};
  EXPECT_FALSE(plan_pieces(indexed, {}, region, {}));
  EXPECT_TRUE(plan_pieces(indexed, header_of(image), region, {}));
}

TEST(RegionPlan, PiecesAscendAndMakeTheRegion) {
  const Image image = make_image({.width = 300, .height = 220, .across = 2, .down = 2});
  const auto chunk = std::make_shared<IndexedChunk>(image.index);
  const IndexedImage& indexed = *chunk->image(kOffset, image.file.file.size());
  const base::Rect region{40, 50, 90, 70};
  base::Pixels expected;
  ASSERT_TRUE(jpeg::Decoder().decode(image.file.file, region, &expected).ok());
  for (const bool has_header : {true, false}) {
    const auto pieces = plan_pieces(indexed, chunk->header(indexed), region, {});
    ASSERT_TRUE(pieces);
    EXPECT_EQ(pieces->has_header, has_header);
    const SlicedSample sample{.sample = 0,
                              .places = {},
                              .image = &indexed,
                              .region = region,
                              .segments = pieces->segments,
                              .has_header = has_header,
                              .chunk = chunk};
    std::vector<Bytes> parts;
    uint64_t end = 0;
    for (const FileRange& place : pieces->places) {
      EXPECT_GE(place.offset, end);
      end = place.offset + place.length;
      parts.push_back(Bytes(image.file.file).subspan(place.offset - kOffset, place.length));
    }
    // The header is kept by the first composition.
    const auto file = compose(sample, parts);
    ASSERT_TRUE(file) << file.error().message();
    base::Pixels pixels;
    ASSERT_TRUE(jpeg::Decoder().decode(*file, region, &pixels).ok());
    EXPECT_EQ(pixels.rgb, expected.rgb);

    ByteVector damaged(parts.back().begin(), parts.back().end());
    damaged[damaged.size() / 2] ^= 1;
    parts.back() = damaged;
    EXPECT_EQ(compose(sample, parts).error().code(), base::Code::kCorrupt);
  }
}

TEST(RegionPlan, AHeaderOtherThanForeseenIsNotUsed) {
  const Image image = make_image({.width = 300, .height = 220});
  Image other = image;
  other.index.samples[0].files[0].width = 299;  // the same number of MCUs
  const auto chunk = std::make_shared<IndexedChunk>(other.index);
  const IndexedImage& indexed = *chunk->image(kOffset, image.file.file.size());
  const base::Rect region{0, 0, 40, 40};
  const auto pieces = plan_pieces(indexed, {}, region, {});
  ASSERT_TRUE(pieces);
  const SlicedSample sample{.sample = 0,
                            .places = {},
                            .image = &indexed,
                            .region = region,
                            .segments = pieces->segments,
                            .has_header = true,
                            .chunk = chunk};
  std::vector<Bytes> parts;
  for (const FileRange& place : pieces->places) {
    parts.push_back(Bytes(image.file.file).subspan(place.offset - kOffset, place.length));
  }
  EXPECT_FALSE(compose(sample, parts));
  EXPECT_TRUE(chunk->header(indexed).empty());
}

TEST(RegionPlan, AHeaderThatWasKeptWithAnotherIndexIsNotUsed) {
  const Image image = make_image({.width = 300, .height = 220});
  IndexedChunk before(image.index);
  before.keep_header(*before.image(kOffset, image.file.file.size()), header_of(image));
  Image other = image;
  auto& segments = other.index.samples[0].files[0].restart->segments;
  const uint32_t last = segments.back().length;
  segments.pop_back();
  segments.back().length += last + 2;  // and the marker between them
  IndexedChunk after(other.index);
  after.add_headers(before.encode_headers());
  const IndexedImage* indexed = after.image(kOffset, image.file.file.size());
  ASSERT_NE(indexed, nullptr);
  ASSERT_FALSE(after.header(*indexed).empty());
  EXPECT_FALSE(plan_pieces(*indexed, after.header(*indexed), {200, 150, 100, 70}, {}));
}

TEST(RegionPlan, NearlyAWholeImageIsReadAsAWhole) {
  const Image image = make_image({.width = 300, .height = 220});
  const IndexedChunk chunk(image.index);
  const IndexedImage& indexed = *chunk.image(kOffset, image.file.file.size());
  EXPECT_FALSE(plan_pieces(indexed, {}, {0, 0, 300, 220}, {}));
  EXPECT_FALSE(plan_pieces(indexed, {}, {4, 4, 290, 210}, {}));
  EXPECT_TRUE(plan_pieces(indexed, {}, {4, 4, 290, 100}, {}));
}

TEST(RegionPlan, ImagesWhoseIndexIsWrongHaveNoParts) {
  for (const int wrong : {0, 1, 2, 3, 4}) {
    Image image = make_image({.width = 300, .height = 220});
    store::StoredFile& file = image.index.samples[0].files[0];
    if (wrong == 0) ++file.length;
    if (wrong == 1) file.width = 0;
    if (wrong == 2) file.height = base::kImageSideMax + 1;
    if (wrong == 3) file.restart.reset();
    if (wrong == 4) {
      file.restart->segments[1].length += file.restart->segments[0].length;
      file.restart->segments[0].length = 0;
    }
    EXPECT_EQ(IndexedChunk(image.index).image(kOffset, file.length), nullptr) << wrong;
  }
}

TEST(RegionPlan, RunsAreJoinedAcrossSmallGapsOfOneChunk) {
  const ReadCost cost{.range_bytes = 10};
  std::vector<WantedBytes> wanted;
  const auto want = [&](uint32_t chunk, uint64_t offset, uint64_t length) {
    wanted.push_back({.of = {.chunk = chunk, .range = {offset, length}}});
  };
  want(1, 100, 50);
  want(0, 500, 10);
  want(0, 0, 100);
  want(0, 110, 40);   // a gap of 10
  want(0, 161, 20);   // a gap of 11
  want(0, 161, 5);    // inside
  want(1, 130, 100);  // overlaps
  const std::vector<ChunkRun> runs = join_runs(wanted, cost.gap_bytes_max());
  ASSERT_EQ(runs.size(), 4u);
  const auto is = [&](size_t run, uint32_t chunk, uint64_t offset, uint64_t length) {
    return runs[run].chunk == chunk && runs[run].range.offset == offset &&
           runs[run].range.length == length;
  };
  EXPECT_TRUE(is(0, 0, 0, 150));
  EXPECT_TRUE(is(1, 0, 161, 20));
  EXPECT_TRUE(is(2, 0, 500, 10));
  EXPECT_TRUE(is(3, 1, 100, 130));
  std::vector<size_t> found;
  for (const WantedBytes& one : wanted) found.push_back(one.run);
  EXPECT_EQ(found, (std::vector<size_t>{3, 2, 0, 0, 1, 1, 3}));
}

TEST(ReadCost, AGapIsReadWhereARequestWouldCostMore) {
  const ReadCost many{.latency_s = 0.05, .bytes_per_s = 100e6};
  ReadCost single = many;
  single.ranges_max = 1;
  EXPECT_EQ(many.gap_bytes_max(), many.range_bytes);
  EXPECT_EQ(single.gap_bytes_max(), ReadCost::kRequestBytes + (64 << 10));
  single.latency_s = 0.01;
  EXPECT_EQ(single.gap_bytes_max(), ReadCost::kRequestBytes + 1'000'000 / kRemoteReads);
  EXPECT_TRUE(many.is_worth(300'000, 1'000'000));
  EXPECT_FALSE(many.is_worth(500'000, 1'000'000));
  EXPECT_FALSE(single.is_worth(300'000, 1'000'000));  // saves less
  EXPECT_TRUE(single.is_worth(10'000, 1'000'000));
}

TEST(ReadCost, GapsThatAreReadCountForAWholeFile) {
  const std::vector<FileRange> needed{{5000, 30'000}, {38'000, 30'000}, {71'000, 31'000}};
  const ReadCost many;
  ReadCost single;
  single.ranges_max = 1;
  EXPECT_FALSE(many.is_nearly_whole(needed, 100'000));
  EXPECT_TRUE(single.is_nearly_whole(needed, 100'000));
  EXPECT_FALSE(single.is_nearly_whole(needed, 110'000));
  // If a request has only one range, every gap is read, however long it is.
  const std::vector<FileRange> ends{{0, 1000}, {9'990'000, 10'000}};
  EXPECT_FALSE(many.is_nearly_whole(ends, 10'000'000));
  EXPECT_TRUE(single.is_nearly_whole(ends, 10'000'000));
}

}  // namespace
}  // namespace forebay::feed
