// The rewrite, the region reads and the decoder against libjpeg's own coefficients and pixels.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/checksum.h"
#include "base/limits.h"
#include "jpeg/decode.h"
#include "jpeg/huffman_sets.h"
#include "jpeg/jpeg_samples.h"
#include "jpeg/markers.h"
#include "jpeg/rewrite.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;
using base::Purpose;
using base::Random;
using base::Rect;

ByteVector crop(const Pixels& pixels, const Rect& region) {
  ByteVector out;
  for (uint32_t y = 0; y < region.height; ++y) {
    const uint8_t* from = pixels.rgb.data() + (size_t{region.y + y} * pixels.width + region.x) * 3;
    out.insert(out.end(), from, from + size_t{region.width} * 3);
  }
  return out;
}

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

Result<ByteVector> compose(const Rewritten& file, const Rect& region) {
  return extract_region(file.index, file.file, region);
}

// Everything that holds for a file that is rewritten.
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
    const auto composed = compose(*rewritten, region);
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
    options.tables = static_cast<TableChoice>(random.below(3));
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

// A bug once: what stands behind the first EOI was dropped without a word.
TEST(Rewrite, DataBehindTheImageIsNotLostSilently) {
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
    EXPECT_EQ(refused.error().message(), "JPEG: more data behind the image (MPO, motion photo)");
  }
}

TEST(Rewrite, QuantisationOf16BitsBecomesExtended) {
  const auto file = rewrite(make_jpeg({.width = 40, .height = 40, .quality = 1}));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->header.coding, Coding::kExtended);
}

TEST(Decode, FourComponentsAsPillow) {
  // By hand from Pillow's cmyk2rgb: the ink is 255 - stored, light = 255 - black ink, and
  // r = light - ink * light / 255, rounded: 128 - 55 * 128 / 255 = 100 for the first channel.
  const auto plain = make_jpeg({.components = 4, .quality = 100, .plain = {200, 100, 50, 128}});
  Pixels one;
  ASSERT_TRUE(Decoder().decode(plain, Rect{3, 3, 1, 1}, &one).ok());
  EXPECT_EQ(one.rgb, (ByteVector{100, 50, 25}));
  Decoder decoder;
  for (const bool ycck : {false, true}) {
    const auto file = make_jpeg({.width = 30, .height = 20, .components = 4, .rgb = ycck});
    Pixels full;
    Pixels part;
    ASSERT_TRUE(decoder.decode(file, std::nullopt, &full).ok());
    ASSERT_TRUE(decoder.decode(file, Rect{7, 5, 20, 9}, &part).ok());
    EXPECT_EQ(part.rgb, crop(full, {7, 5, 20, 9}));
  }
}

TEST(Decode, ArithmeticCoding) {
  const auto file = make_jpeg({.width = 33, .height = 21, .arithmetic = true});
  Decoder decoder;
  Pixels pixels;
  ASSERT_TRUE(decoder.decode(file, std::nullopt, &pixels).ok());
  EXPECT_EQ(pixels.rgb, reference_pixels(file));
}

TEST(Decode, RegionOutsideIsInvalid) {
  Decoder decoder;
  Pixels pixels;
  const auto file = make_jpeg({});
  EXPECT_EQ(decoder.decode(file, Rect{0, 0, 17, 1}, &pixels).code(), Code::kInvalid);
  EXPECT_EQ(decoder.decode(file, Rect{0, 0, 0, 1}, &pixels).code(), Code::kInvalid);
  EXPECT_EQ(decoder.decode(file, Rect{UINT32_MAX, 0, 2, 1}, &pixels).code(), Code::kInvalid);
}

// Runs everything on bytes that may be broken; only crashes count.
void exercise(Bytes file, Decoder& decoder) {
  static Decoder of_damaged({.damaged = Damaged::kDecode});
  Pixels pixels;
  (void)of_damaged.decode(file, std::nullopt, &pixels);
  (void)decoder.decode(file, std::nullopt, &pixels);
  (void)decoder.decode(file, Rect{1, 1, 3, 3}, &pixels);
  if (const auto out = rewrite(file)) (void)compose(*out, {0, 0, 1, 1});
}

TEST(Hostile, TruncationsAndFlipsAreErrorsAndLeaveNothingBehind) {
  Pixels expected;
  for (int i = 0; i < 4; ++i) {
    const bool progressive = i % 2 != 0;
    Decoder decoder({.turbo_where_faster = i < 2});
    const auto good =
        make_jpeg({.width = 20, .height = 18, .across = 2, .down = 2, .progressive = progressive});
    ASSERT_TRUE(decoder.decode(good, std::nullopt, &expected).ok());
    const auto still_good = [&] {
      Pixels pixels;
      return decoder.decode(good, std::nullopt, &pixels).ok() && pixels.rgb == expected.rgb &&
             rewrite(good).has_value();
    };
    for (size_t length = 0; length < good.size(); ++length) {
      // A copy of its own, so that reading past its end is seen by AddressSanitizer.
      const ByteVector cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
      Pixels pixels;
      const Status status = decoder.decode(cut, std::nullopt, &pixels);
      if (!progressive && length >= good.size() - 2) {  // only the end marker is cut
        EXPECT_TRUE(status.ok() && pixels.rgb == expected.rgb) << length;
        EXPECT_TRUE(rewrite(cut)) << length;
      } else {
        EXPECT_EQ(status.code(), Code::kCorrupt) << length;
        EXPECT_FALSE(rewrite(cut)) << length;
      }
      ASSERT_TRUE(still_good()) << length;
    }
    for (size_t at = 0; at < good.size(); ++at) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        ByteVector bad = good;
        bad[at] = static_cast<uint8_t>(bad[at] ^ flip);
        // Large sizes are slow and tested below.
        if (const auto header = parse_header(bad); header && header->mcu_count() > 5000) continue;
        exercise(bad, decoder);
      }
      ASSERT_TRUE(still_good()) << at;
    }
  }
}

TEST(Hostile, TablesDoNotLeakFromOneImageToTheNext) {
  const auto good = make_jpeg({.width = 24, .height = 24, .quality = 60});
  ByteVector bare = {0xFF, kSoi};
  MarkerReader reader(good);
  for (auto marker = *reader.next(); marker.code != kSos;) {
    marker = *reader.next();
    if (marker.code == kDqt) continue;
    bare.insert(bare.end(), good.begin() + static_cast<ptrdiff_t>(marker.offset),
                good.begin() + static_cast<ptrdiff_t>(reader.position()));
  }
  bare.insert(bare.end(), good.begin() + static_cast<ptrdiff_t>(reader.position()), good.end());
  Decoder decoder;
  Pixels pixels;
  ASSERT_TRUE(decoder.decode(good, std::nullopt, &pixels).ok());
  EXPECT_EQ(decoder.decode(bare, std::nullopt, &pixels).code(), Code::kCorrupt);
  EXPECT_FALSE(rewrite(bare));
}

// Overwrites the size in the frame header.
ByteVector with_size(ByteVector file, uint32_t width, uint32_t height) {
  MarkerReader reader(file);
  Marker marker;
  do marker = *reader.next();
  while (marker.code != kSof0);
  const size_t at = marker.offset + 5;
  file[at] = static_cast<uint8_t>(height >> 8);
  file[at + 1] = static_cast<uint8_t>(height);
  file[at + 2] = static_cast<uint8_t>(width >> 8);
  file[at + 3] = static_cast<uint8_t>(width);
  return file;
}

TEST(Hostile, SizesAreCheckedBeforeAnythingIsAllocated) {
  const auto good = make_jpeg({});
  const auto code = [&](uint32_t width, uint32_t height) {
    return status_of(parse_header(with_size(good, width, height))).code();
  };
  EXPECT_EQ(code(base::kImageSideMax, 4096), Code::kOk);
  EXPECT_EQ(code(base::kImageSideMax, 4097), Code::kTooBig);
  EXPECT_EQ(code(base::kImageSideMax + 1, 1), Code::kTooBig);
  EXPECT_EQ(code(65535, 65535), Code::kTooBig);
  EXPECT_EQ(code(0, 5), Code::kCorrupt);
  EXPECT_EQ(code(5, 0), Code::kUnsupported);
}

TEST(Compose, RefusesWhatDoesNotMatchItsIndex) {
  const auto file = rewrite(make_jpeg({.width = 100, .height = 100}));
  ASSERT_TRUE(file);
  Rewritten bad = *file;
  bad.file[40] ^= 1;
  EXPECT_FALSE(compose(bad, {0, 0, 9, 9}));
  bad = *file;
  bad.file[file->index.header_bytes + 1] ^= 1;
  EXPECT_EQ(compose(bad, {0, 0, 9, 9}).error().code(), Code::kCorrupt);
  EXPECT_TRUE(compose(bad, {0, 90, 9, 9})) << "the damage is not in what is read";
  bad = *file;
  bad.index.segments.pop_back();
  EXPECT_FALSE(compose(bad, {0, 0, 9, 9}));
  const Bytes header = Bytes(file->file).first(file->index.header_bytes);
  EXPECT_FALSE(compose_region(file->index, header, {{0, 1}}, {}));
  EXPECT_FALSE(compose_region(file->index, header, {{1, 0}}, {Bytes()}));
  EXPECT_FALSE(compose_region(file->index, header, {{0, 99999}}, {Bytes()}));
}

// A bug once: these ended the process, because the region was planned before header and index
// had been compared.
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

TEST(HuffmanSets, AreCompleteForLegalSymbolsAndValid) {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    for (size_t set = 0; set < kHuffmanSets; ++set) {
      const SharedTable& shared = shared_table(slot, set);
      uint32_t used = 0;  // of 2^16 code points
      for (int symbol = 0; symbol < 256; ++symbol) {
        const uint8_t length = shared.codes.length[static_cast<size_t>(symbol)];
        EXPECT_EQ(length != 0, is_legal_symbol(is_ac(slot), symbol));
        if (length != 0) used += 1u << (16 - length);
      }
      EXPECT_LT(used, 1u << 16) << "the code of all ones is used";
    }
  }
}

// The photographs that scikit-learn and scikit-image install, or those of any other folder.
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
  // Of a set that is large enough to say something of photographs.
  if (files >= 100) {
    EXPECT_LE(after, before + before / 50) << "in " << folder;
  }
  fmt::print("{} files, {} with private tables: {} B, rewritten {} B, {:.4f} x\n", files,
             own_tables, before, after, static_cast<double>(after) / static_cast<double>(before));
}

}  // namespace
}  // namespace forebay::jpeg
