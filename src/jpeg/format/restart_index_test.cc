// Tests which segments a region needs, and that a header, an index and bytes that do not belong
// together are refused.
#include "jpeg/format/restart_index.h"

#include <gtest/gtest.h>

#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Rect;

Result<ByteVector> extract(const Rewritten& file, const Rect& region) {
  return extract_region(file.index, file.file, region);
}

TEST(Compose, RefusesWhatDoesNotMatchItsIndex) {
  const auto file = rewrite(make_jpeg({.width = 100, .height = 100}));
  ASSERT_TRUE(file);
  Rewritten bad = *file;
  bad.file[40] ^= 1;
  EXPECT_FALSE(extract(bad, {0, 0, 9, 9}));
  bad = *file;
  bad.file[file->index.header_bytes + 1] ^= 1;
  EXPECT_EQ(extract(bad, {0, 0, 9, 9}).error().code(), Code::kCorrupt);
  EXPECT_TRUE(extract(bad, {0, 90, 9, 9})) << "the damage is not in what is read";
  bad = *file;
  bad.index.segments.pop_back();
  EXPECT_FALSE(extract(bad, {0, 0, 9, 9}));
  const Bytes header = Bytes(file->file).first(file->index.header_bytes);
  EXPECT_FALSE(compose_region(file->index, header, {{0, 1}}, {}));
  EXPECT_FALSE(compose_region(file->index, header, {{1, 0}}, {Bytes()}));
  EXPECT_FALSE(compose_region(file->index, header, {{0, 99999}}, {Bytes()}));
}

// Regression: these inputs ended the process, because the region was planned before header and
// index had been compared.
TEST(PlanRegion, HeaderAndIndexAreComparedFirst) {
  const auto file = rewrite(make_jpeg({.width = 100, .height = 100}));
  ASSERT_TRUE(file);
  const Bytes header = Bytes(file->file).first(file->index.header_bytes);
  const Rect corner{90, 90, 10, 10};
  EXPECT_TRUE(plan_region(file->index, header, corner));
  EXPECT_EQ(plan_region(file->index, header, {90, 90, 11, 10}).error().code(), Code::kInvalid);
  RestartIndex few = file->index;
  few.segments.resize(2);
  EXPECT_EQ(plan_region(few, header, corner).error().code(), Code::kCorrupt);
  few.header_bytes += static_cast<uint32_t>(file->file.size() - few.file_bytes());
  EXPECT_EQ(extract_region(few, file->file, corner).error().code(), Code::kCorrupt);
  for (size_t at = 0; at < header.size(); ++at) {
    ByteVector bad(header.begin(), header.end());
    bad[at] ^= 0x01;
    EXPECT_FALSE(plan_region(file->index, bad, corner)) << at;
  }
}

TEST(SegmentsForRegion, OnePixelOfContextOnlyWhereChromaIsInterpolated) {
  Header header{.width = 160, .height = 160, .component_count = 3, .restart_interval = 1};
  header.components[1] = header.components[2] = Component{};
  header.components[0] = {1, 2, 2, 0};
  using Ranges = std::vector<SegmentRange>;
  EXPECT_EQ(segments_for_region(header, {17, 17, 14, 14}), (Ranges{{11, 12}}));
  EXPECT_EQ(segments_for_region(header, {16, 17, 14, 14}), (Ranges{{10, 12}}));
  EXPECT_EQ(segments_for_region(header, {17, 17, 15, 14}), (Ranges{{11, 13}}));
  EXPECT_EQ(segments_for_region(header, {0, 0, 160, 160}), (Ranges{{0, 100}}));
  header.components[0] = {1, 1, 1, 0};
  EXPECT_EQ(segments_for_region(header, {8, 8, 8, 8}), (Ranges{{21, 22}}));
}

}  // namespace
}  // namespace forebay::jpeg
