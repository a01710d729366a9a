// The rewrite keeps coefficients, pixels and metadata, for generated images and for photographs.
// libjpeg-turbo provides the expected values.
#include "jpeg/rewrite/rewrite.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/checksum.h"
#include "jpeg/decode.h"
#include "jpeg/format/markers.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;
using base::Purpose;
using base::Random;
using base::Rect;

std::vector<std::string> metadata(Bytes file) {
  std::vector<std::string> out;
  MarkerReader reader(file);
  for (auto marker = reader.next(); marker && marker->code != kEoi; marker = reader.next()) {
    if (marker->code == kSos) reader.skip_scan();
    if ((marker->code >= kApp0 && marker->code <= kApp15) || marker->code == kCom) {
      out.push_back(fmt::format("{}:{}", marker->code, base::to_hex(marker->payload)));
    }
  }
  return out;
}

// Checks everything that holds for a rewritten file.
void check_file(Bytes source, const RewriteOptions& options, Random& random, int crops) {
  const auto rewritten = rewrite(source, options);
  ASSERT_TRUE(rewritten) << rewritten.error().message();
  EXPECT_EQ(rewritten->index.file_bytes(), rewritten->file.size());
  EXPECT_EQ(rewritten->index.segments.size(), rewritten->header.segment_count());
  ASSERT_TRUE(coefficients(rewritten->file) == coefficients(source));
  EXPECT_EQ(metadata(rewritten->file), metadata(source));
  Decoder decoder;
  Pixels before;
  Pixels full;
  Pixels part;
  ASSERT_TRUE(decoder.decode(source, std::nullopt, &before).ok());
  const Status status = decoder.decode(rewritten->file, std::nullopt, &full);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(full.rgb == before.rgb);
  ASSERT_TRUE(full.rgb == reference_pixels(source));
  for (int i = 0; i < crops; ++i) {
    const Rect region = random_region(rewritten->header.width, rewritten->header.height, random);
    SCOPED_TRACE(
        fmt::format("{} x {} at ({}, {})", region.width, region.height, region.x, region.y));
    const ByteVector expected = crop(full, region);
    ASSERT_TRUE(decoder.decode(source, region, &part).ok());
    ASSERT_TRUE(part.rgb == expected) << "region of the source";
    const auto composed = extract_region(rewritten->index, rewritten->file, region);
    ASSERT_TRUE(composed) << composed.error().message();
    const Status decoded = decoder.decode(*composed, region, &part);
    ASSERT_TRUE(decoded.ok()) << decoded.message();
    ASSERT_TRUE(part.rgb == expected) << "region of the composed file";
  }
}

constexpr int kFactors[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {1, 4}};

Sample random_sample(Random& random) {
  Sample sample;
  sample.width = 1 + static_cast<uint32_t>(random.below(70));
  sample.height = 1 + static_cast<uint32_t>(random.below(70));
  sample.components = random.below(5) == 0 ? 1 : 3;
  const auto& factors = kFactors[random.below(std::size(kFactors))];
  sample.across = factors[0];
  sample.down = factors[1];
  sample.quality = random.below(4) == 0 ? 3 : 30 + static_cast<int>(random.below(71));
  sample.rgb = sample.components == 3 && random.below(6) == 0;
  sample.progressive = random.below(4) == 0;
  sample.separate_scans = !sample.progressive && random.below(5) == 0;
  sample.restart = random.below(3) == 0 ? static_cast<int>(random.below(9)) : 0;
  sample.comments = random.below(2) == 0;
  return sample;
}

TEST(Rewrite, KeepsCoefficientsPixelsAndMetadata) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed, Purpose::kTest);
    const Sample sample = random_sample(random);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, sample.name()));
    RewriteOptions options;
    options.tables = static_cast<TableMode>(random.below(3));
    if (random.below(3) != 0) options.restart_interval = static_cast<uint32_t>(random.below(7));
    check_file(make_jpeg(sample, seed), options, random, 4);
    if (HasFatalFailure()) return;
  }
}

TEST(Rewrite, DefaultRestartIntervals) {
  const auto interval = [](uint32_t side, int across) {
    return rewrite(make_jpeg({.width = side, .height = side, .across = across}))
        ->header.restart_interval;
  };
  EXPECT_EQ(interval(64, 1), 8u);
  EXPECT_EQ(interval(56, 1), 0u);
  EXPECT_EQ(interval(128, 2), 4u);
}

TEST(Rewrite, SameBytesEachTimeAndAgain) {
  const auto source = make_jpeg({.width = 90, .height = 80});
  const auto once = rewrite(source);
  EXPECT_EQ(once->file, rewrite(source)->file);
  EXPECT_EQ(once->file, rewrite(once->file)->file);
}

TEST(Rewrite, RefusesWhatItCannotHold) {
  EXPECT_EQ(rewrite(make_jpeg({.components = 4})).error().code(), Code::kUnsupported);
  EXPECT_EQ(rewrite(make_jpeg({.arithmetic = true})).error().code(), Code::kUnsupported);
  EXPECT_EQ(rewrite({}).error().code(), Code::kCorrupt);
  EXPECT_EQ(rewrite(make_jpeg({}), {.restart_interval = 65536}).error().code(), Code::kInvalid);
}

// Regression: data after the first EOI was dropped without an error.
TEST(Rewrite, DataAfterTheImageIsNotLostSilently) {
  const ByteVector image = make_jpeg({.width = 40, .height = 30});
  ByteVector padded = image;
  padded.resize(image.size() + 100);
  const auto rewritten = rewrite(padded);
  ASSERT_TRUE(rewritten) << rewritten.error().message();
  EXPECT_EQ(rewritten->file, rewrite(image)->file);
  ByteVector two = image;
  two.insert(two.end(), image.begin(), image.end());
  ByteVector film = padded;
  film.back() = 1;
  for (const ByteVector& file : {two, film}) {
    const auto refused = rewrite(file);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kUnsupported);
    EXPECT_EQ(refused.error().message(), "JPEG: more data after the image (MPO, motion photo)");
  }
}

TEST(Rewrite, QuantisationOf16BitsBecomesExtended) {
  const auto file = rewrite(make_jpeg({.width = 40, .height = 40, .quality = 1}));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->header.coding, Coding::kExtended);
}

// Uses the photographs that scikit-learn and scikit-image install, or those in the folder that
// FOREBAY_TEST_PHOTOS names.
TEST(Photographs, KeepCoefficientsPixelsAndMarkers) {
  const char* folder = std::getenv("FOREBAY_TEST_PHOTOS");
  if (folder == nullptr) folder = FOREBAY_VENV_DIR "/lib";
  uint64_t before = 0;
  uint64_t after = 0;
  int files = 0;
  int own_tables = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".jpg" && extension != ".jpeg" && extension != ".JPEG") continue;
    SCOPED_TRACE(entry.path().string());
    std::ifstream in(entry.path(), std::ios::binary);
    const ByteVector source{std::istreambuf_iterator<char>(in), {}};
    if (!is_jpeg(source)) continue;
    Random random(static_cast<uint64_t>(files), Purpose::kTest);
    const auto rewritten = rewrite(source);
    if (!rewritten) {
      fmt::print("{}: {}\n", entry.path().string(), rewritten.error().message());
      continue;
    }
    check_file(source, {}, random, 3);
    if (HasFatalFailure()) return;
    ++files;
    own_tables += rewritten->table_set < 0 ? 1 : 0;
    before += source.size();
    after += rewritten->file.size();
  }
  EXPECT_GE(files, 4) << "in " << folder;
  // Only a large set of photographs says something about photographs.
  if (files >= 100) {
    EXPECT_LE(after, before + before / 50) << "in " << folder;
  }
  fmt::print("{} files, {} with private tables: {} B, rewritten {} B, {:.4f} x\n", files,
             own_tables, before, after, static_cast<double>(after) / static_cast<double>(before));
}

}  // namespace
}  // namespace forebay::jpeg
