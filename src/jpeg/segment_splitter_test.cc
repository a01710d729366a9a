// The points of a split segment equal decoding it from its beginning, one MCU at a time.
#include "jpeg/segment_splitter.h"

#include <gtest/gtest.h>

#include "jpeg/kernels/stuffing.h"
#include "jpeg/lookup_cache.h"
#include "jpeg/testing/decode_batch.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;
using Point = SegmentSplitter::Point;

// The scan of a JPEG without restart markers.
class WholeScan : private StreamSource {
 public:
  explicit WholeScan(Bytes file)
      : scan_(*read_scan(file, *parse_header(file))), data_(file.size() + kUnstuffedPadding) {
    const auto copied = copy_unstuffed(file.subspan(scan_.header.header_bytes), 0,
                                       EntropyKernel::kPortable, data_.data());
    std::array<uint32_t, 3> pair_of{};
    EXPECT_EQ(cache_.find(scan_, true, &tables_, &pair_of), LookupCache::Found::kYes);
    for (uint8_t c = 0; c < scan_.component_count; ++c) {
      const ScanComponent& component = scan_.components[c];
      component_of_.insert(component_of_.end(), component.horizontal * component.vertical, c);
    }
    const auto blocks = static_cast<uint32_t>(component_of_.size());
    const uint32_t mcus = std::min(kSliceBlocks / blocks, scan_.header.mcu_count());
    for (uint32_t b = 0; b < mcus * blocks; ++b) {
      tables_.pairs |= pair_of[component_of_[b % blocks]] << b;
    }
    tables_.complete(mcus * blocks);
    segment_ = {.data = data_.data(),
                .bits = uint64_t{copied.bytes} * 8,
                .mcus = scan_.header.mcu_count(),
                .needed = scan_.header.mcu_count(),
                .tables = &tables_,
                .component_of = component_of_,
                .slice_mcus = mcus};
  }

  const LookupArena& arena() const { return cache_.arena(); }
  const SegmentSplitter::Input& segment() const { return segment_; }

  // Returns where each MCU begins, up to the first damaged one.
  const std::vector<Point>& course() {
    if (!course_.empty()) return course_;
    coefficients_.resize(kSlicePadding + size_t{kSliceBlocks} * 64 + kSlicePadding);
    course_.emplace_back();
    decode_slices(KernelSelection(EntropyKernel::kPortable), {.count = 1}, arena(),
                  coefficients_.data(), *this);
    return course_;
  }

 private:
  Stream* next(Stream* done) override {
    if (done == nullptr && started_) return nullptr;
    started_ = true;
    if (done != nullptr) {
      if (done->bad) return nullptr;
      Point point = course_.back();
      point.bit = done->bit;
      ++point.mcu;
      for (size_t b = 0; b < component_of_.size(); ++b) {
        int16_t& dc = point.dc[component_of_[b]];
        dc = static_cast<int16_t>(dc + done->out[b * 64]);
      }
      course_.push_back(point);
      if (point.mcu == segment_.mcus) return nullptr;
    }
    stream_ = {.data = segment_.data,
               .bits = segment_.bits,
               .bit = course_.back().bit,
               .tables = &tables_,
               .out = coefficients_.data() + kSlicePadding,
               .blocks = static_cast<uint32_t>(component_of_.size())};
    return &stream_;
  }

  Scan scan_;
  ByteVector data_;
  LookupCache cache_;
  StreamTables tables_;
  std::vector<uint8_t> component_of_;
  SegmentSplitter::Input segment_;
  std::vector<int16_t> coefficients_;
  std::vector<Point> course_;
  Stream stream_;
  bool started_ = false;
};

// Splits with each kernel, for several numbers of needed MCUs.
void check(const ByteVector& file, Random& random) {
  WholeScan scan(file);
  const auto& course = scan.course();
  for (const EntropyKernel kernel : kernels()) {
    SegmentSplitter splitter(kernel);
    for (int i = 0; i < 3; ++i) {
      auto segment = scan.segment();
      if (i > 0) segment.needed = 1 + static_cast<uint32_t>(random.below(segment.mcus));
      const auto points = splitter.split(scan.arena(), segment);
      ASSERT_FALSE(points.empty());
      uint32_t expected = 0;  // the next point must not be before this MCU
      for (const Point& point : points) {
        ASSERT_GE(point.mcu, expected);
        expected = point.mcu + segment.slice_mcus;
        ASSERT_LT(point.mcu, course.size());
        ASSERT_LT(point.mcu, segment.needed);
        ASSERT_EQ(point.bit, course[point.mcu].bit);
        ASSERT_EQ(point.dc, course[point.mcu].dc);
      }
      ASSERT_EQ(points.front().mcu, 0u);
      // Points reach to the end of the good data, and are this close to each other.
      const auto end = std::min<size_t>(segment.needed, course.size());
      ASSERT_LE(end, points.back().mcu + 3 * segment.slice_mcus);
      for (size_t p = 1; p < points.size(); ++p) {
        ASSERT_LE(points[p].mcu, points[p - 1].mcu + 3 * segment.slice_mcus);
      }
    }
  }
}

Sample random_sample(int i, Random& random) {
  const auto& factors = kLumaFactors[random.below(std::size(kLumaFactors))];
  return {.width = 40 + static_cast<uint32_t>(random.below(500)),
          .height = 40 + static_cast<uint32_t>(random.below(400)),
          .components = i % 7 == 0 ? 1 : 3,
          .across = factors[0],
          .down = factors[1],
          .quality = 20 + static_cast<int>(random.below(80)),
          .rgb = i % 7 == 1};
}

TEST(SegmentSplitter, PointsLieOnTheTrueCourse) {
  Random random(21, Purpose::kTest);
  for (int i = 0; i < 60; ++i) {
    const Sample sample = random_sample(i, random);
    SCOPED_TRACE(sample.name());
    check(make_jpeg(sample, random.next_u64()), random);
    if (HasFatalFailure()) return;
  }
}

// The codes do not tell the components apart, so that decoding that begins in the wrong component
// never falls into step; and an image whose blocks are all equal.
TEST(SegmentSplitter, FindsPointsWhereNothingFallsIntoStep) {
  Random random(22, Purpose::kTest);
  HuffmanTable tables[2];
  for (int ac = 0; ac < 2; ++ac) {
    Histogram histogram{};
    for (int symbol = 0; symbol < 256; ++symbol) {
      if (is_legal_symbol(ac != 0, symbol)) histogram[static_cast<size_t>(symbol)] = 1000;
    }
    tables[ac] = optimal_table(histogram);
  }
  for (int i = 0; i < 12; ++i) {
    Sample sample = random_sample(i + 2, random);
    if (i % 3 == 2) sample.plain = {200, 30, 90};
    SCOPED_TRACE(sample.name());
    check(with_tables(make_jpeg(sample, random.next_u64()), 0,
                      [&](bool ac) { return tables[ac ? 1 : 0]; }),
          random);
    if (HasFatalFailure()) return;
  }
}

TEST(SegmentSplitter, DamageEndsThePoints) {
  Random random(23, Purpose::kTest);
  for (int i = 0; i < 60; ++i) {
    const Sample sample = random_sample(i, random);
    SCOPED_TRACE(sample.name());
    ByteVector file = make_jpeg(sample, random.next_u64());
    const uint32_t begin = parse_header(file)->header_bytes;
    const size_t at = begin + random.below(file.size() - 2 - begin);
    if (i % 3 == 0) {
      // Contains no 0xFF, which would be a marker.
      for (size_t k = at; k + 2 < file.size(); ++k)
        file[k] = static_cast<uint8_t>(random.below(255));
    } else if (i % 3 == 1) {
      file[at] = static_cast<uint8_t>(random.below(255));
    } else {
      file.erase(file.begin() + static_cast<ptrdiff_t>(at), file.end() - 2);
    }
    check(file, random);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace forebay::jpeg
