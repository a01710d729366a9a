// Images of every size and orientation are shown as EXIF says, and metadata of any kind are read
// like Pillow reads them, or have no effect. tests/python/test_orientation.py compares with Pillow
// itself.
#include "base/random.h"
#include "image/testing/golden_files.h"
#include "image/testing/oriented_files.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::Random;

Pixels decoded(Bytes file, const std::optional<Rect>& region = {}, bool oriented = true) {
  const Encoded source = read_header(file, oriented).value();
  const Rect whole{0, 0, source.size.width, source.size.height};
  Pixels out;
  const DecodeRequest request{source, region.value_or(whole)};
  ImageDecoder decoder;
  decoder.decode({&request, 1}, [&](size_t, const Status& status, base::Rows& rows) {
    EXPECT_TRUE(status.ok()) << status.message();
    if (status.ok()) rows.move_to(&out);
  });
  return out;
}

TEST(Orientation, EverySizeIsTurned) {
  Random random(5, base::Purpose::kTest);
  constexpr std::array<uint32_t, 12> kSides = {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 129, 200};
  for (const uint32_t width : kSides) {
    for (const uint32_t height : kSides) {
      const Pixels stored = make_image(width, height, 2);
      for (uint64_t tag = 1; tag <= 8; ++tag) {
        SCOPED_TRACE(fmt::format("{} x {}, tag {}", width, height, tag));
        const ByteVector file = make_png(stored, png_chunk("eXIf", exif_with(tag, tag % 2 == 0)));
        Pixels expected = shown(stored, tag);
        const Size size{expected.width, expected.height};
        EXPECT_EQ(read_header(file, true)->size, size);
        EXPECT_EQ(read_header(file)->size, (Size{width, height}));
        ASSERT_EQ(decoded(file).rgb, expected.rgb);
        const Rect part = jpeg::random_region(size.width, size.height, random);
        expected.crop(part);
        ASSERT_EQ(decoded(file, part).rgb, expected.rgb);
      }
    }
  }
}

TEST(Orientation, EveryFormatIsTurned) {
  const GoldenFile& webp = golden_files().at("webp_lossy");
  const ByteVector jpeg = jpeg::make_jpeg({.width = 37, .height = 22, .across = 2, .down = 2});
  const ByteVector progressive = jpeg::make_jpeg({.width = 5, .height = 9, .progressive = true});
  for (uint64_t tag = 1; tag <= 8; ++tag) {
    const ByteVector exif = exif_with(tag);
    for (const ByteVector& file : {jpeg_with_exif(jpeg, exif), jpeg_with_exif(progressive, exif),
                                   webp_with(webp.bytes, webp.size, "EXIF", exif),
                                   make_png(make_image(6, 4, 2), {}, png_chunk("eXIf", exif))}) {
      SCOPED_TRACE(fmt::format("{}, tag {}", format_name(sniff(file)), tag));
      const Pixels expected = shown(decoded(file, {}, false), tag);
      EXPECT_EQ(decoded(file).rgb, expected.rgb);
      const Rect part{1, 2, 3, 1};
      Pixels cropped = expected;
      cropped.crop(part);
      EXPECT_EQ(decoded(file, part).rgb, cropped.rgb);
    }
  }
}

TEST(Orientation, RegionsOutsideAreRefused) {
  const ByteVector file = make_png(make_image(6, 4, 2), png_chunk("eXIf", exif_with(6)));
  const Encoded source = read_header(file, true).value();
  ImageDecoder decoder;
  for (const Rect& region : {Rect{0, 0, 6, 4}, Rect{4, 0, 1, 1}, Rect{0, 6, 1, 1}, Rect{0, 0, 0, 1},
                             Rect{~0U, 0, 2, 1}, Rect{0, ~0U - 2, 1, 9}}) {
    const DecodeRequest request{source, region};
    decoder.decode({&request, 1}, [&](size_t, const Status& status, base::Rows&) {
      EXPECT_EQ(status.code(), base::Code::kInvalid);
    });
  }
}

// Returns the orientation tag in a file's metadata, or 1 if they have none.
uint64_t tag_of(Bytes file) {
  const Orientation orientation = read_header(file, true)->orientation;
  for (uint64_t tag = 1; tag <= 8; ++tag) {
    const ByteVector one = make_png(make_image(1, 1, 2), png_chunk("eXIf", exif_with(tag)));
    if (read_header(one, true)->orientation == orientation) return tag;
  }
  return 0;
}
uint64_t tag_of_exif(Bytes exif) {
  const uint64_t tag = tag_of(make_png(make_image(2, 3, 2), png_chunk("eXIf", exif)));
  EXPECT_EQ(tag_of(jpeg_with_exif(jpeg::make_jpeg({}), exif)), tag);
  return tag;
}

TEST(Orientation, TagsMayHaveAnyWholeType) {
  for (const bool little : {false, true}) {
    for (const auto& [type, bytes] : {std::pair{3, 2}, {4, 4}, {6, 1}, {8, 2}, {9, 4}, {13, 4}}) {
      const TiffEntry entry{.type = static_cast<uint16_t>(type),
                            .value = value_of(6, static_cast<size_t>(bytes), little)};
      EXPECT_EQ(tag_of_exif(make_tiff({entry}, little)), 6u) << type;
    }
    for (const uint16_t type : std::initializer_list<uint16_t>{0, 1, 2, 7, 11, 14, 17, 0xFFFF}) {
      const TiffEntry entry{.type = type, .count = 2, .value = value_of(6, 2, little)};
      EXPECT_EQ(tag_of_exif(make_tiff({entry}, little)), 1u) << type;
    }
  }
}

TEST(Orientation, TheFirstGoodEntryCounts) {
  const auto entry = [](uint64_t tag, uint32_t count = 1) {
    return TiffEntry{.count = count, .value = value_of(tag, 2, true)};
  };
  EXPECT_EQ(tag_of_exif(make_tiff({entry(6), entry(3)}, true)), 6u);
  EXPECT_EQ(tag_of_exif(make_tiff({entry(3, 0), entry(6)}, true)), 6u);
  EXPECT_EQ(tag_of_exif(make_tiff({entry(9), entry(3)}, true)), 1u);
  EXPECT_EQ(tag_of_exif(make_tiff({entry(6, 2)}, true)), 6u);
  // Values of more than four bytes lie elsewhere: first where the directory is, then after the end.
  TiffEntry far{.count = 4, .value = value_of(8, 4, true)};
  EXPECT_EQ(tag_of_exif(make_tiff({far}, true)), 1u);  // the number of entries
  far.value = value_of(9'999, 4, true);
  EXPECT_EQ(tag_of_exif(make_tiff({far, entry(6)}, true)), 1u);
  // The entry has more bytes than the file, so it is skipped.
  far.count = 1U << 31;
  EXPECT_EQ(tag_of_exif(make_tiff({far, entry(6)}, true)), 6u);
}

TEST(Orientation, HeadsOfExifMayRepeat) {
  const ByteVector head = bytes_of({"Exif\0\0", 6});
  ByteVector exif = exif_with(5);
  exif.insert(exif.begin(), head.begin(), head.end());
  EXPECT_EQ(tag_of_exif(exif), 5u);
  EXPECT_EQ(tag_of_exif(head), 1u);
  EXPECT_EQ(tag_of_exif({}), 1u);
}

TEST(Orientation, SegmentsAreJoined) {
  const ByteVector jpeg = jpeg::make_jpeg({});
  const ByteVector exif = exif_with(7);
  for (const size_t cut : {1U, 8U, 13U, 30U}) {
    const Bytes whole(exif);
    const ByteVector last = jpeg_with_exif(jpeg, whole.subspan(cut));
    EXPECT_EQ(tag_of(jpeg_with_exif(last, whole.first(cut))), 7u);
  }
  EXPECT_EQ(tag_of(jpeg_with_exif(jpeg_with_exif(jpeg, exif_with(3)), exif)), 7u);
}

ByteVector text_chunk(std::string_view text, bool is_compressed = false) {
  ByteVector data = bytes_of({"XML:com.adobe.xmp\0", 18});
  data.push_back(is_compressed ? 1 : 0);
  data.push_back(0);
  append(&data, bytes_of({"en\0xmp\0", 7}));
  append(&data, bytes_of(text));
  return png_chunk("iTXt", data);
}

TEST(Orientation, XmpCountsWhereExifHasNoTag) {
  const Pixels pixels = make_image(2, 3, 2);
  const auto of_png = [&](std::string_view text) {
    return tag_of(make_png(pixels, text_chunk(text)));
  };
  EXPECT_EQ(of_png("<x tiff:Orientation=\"6\"/>"), 6u);
  EXPECT_EQ(of_png("<tiff:Orientation>8</tiff:Orientation>"), 8u);
  EXPECT_EQ(of_png("tiff:Orientation='3' tiff:Orientation=\"x\" tiff:Orientation=\"42\""), 4u);
  EXPECT_EQ(of_png("tiff:Orientation"), 1u);
  EXPECT_EQ(of_png("tiff:Orientation=\""), 1u);
  EXPECT_EQ(of_png(""), 1u);
  EXPECT_EQ(tag_of(make_png(pixels, text_chunk("tiff:Orientation>5", true))), 1u);
  ByteVector both = text_chunk("tiff:Orientation>5");
  append(&both, png_chunk("eXIf", exif_with(1)));
  EXPECT_EQ(tag_of(make_png(pixels, both)), 1u);

  ByteVector payload = bytes_of({"http://ns.adobe.com/xap/1.0/\0", 29});
  append(&payload, bytes_of("tiff:Orientation=\"5\""));
  const ByteVector jpeg = with_segment(jpeg::make_jpeg({}), 0xE1, payload);
  EXPECT_EQ(tag_of(jpeg), 5u);
  EXPECT_EQ(tag_of(jpeg_with_exif(jpeg, exif_with(2))), 2u);
  EXPECT_EQ(tag_of(jpeg_with_exif(jpeg, make_tiff({}, true))), 5u);

  const GoldenFile& webp = golden_files().at("webp_lossless");
  EXPECT_EQ(tag_of(webp_with(webp.bytes, webp.size, "XMP ", bytes_of("tiff:Orientation>7"))), 7u);
}

TEST(Orientation, HostileMetadataDoNothing) {
  const ByteVector jpeg = jpeg::make_jpeg({});
  const ByteVector exif = exif_with(6);
  for (size_t length = 0; length < exif.size(); ++length) {
    const uint64_t tag = tag_of_exif(Bytes(exif).first(length));
    EXPECT_TRUE(tag == 1 || (tag == 6 && length >= 34)) << length;
  }
  Random random(8, base::Purpose::kTest);
  for (int round = 0; round < 20'000; ++round) {
    ByteVector bad = exif;
    for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      bad[random.below(bad.size())] = static_cast<uint8_t>(random.below(256));
    }
    const auto header = read_header(jpeg_with_exif(jpeg, bad), true);
    ASSERT_TRUE(header) << round;
  }
  ByteVector chunk = png_chunk("eXIf", exif);
  chunk.back() ^= 1;  // damages its checksum
  EXPECT_EQ(tag_of(make_png(make_image(2, 3, 2), chunk)), 1u);
  // A chunk that is longer than the file.
  const ByteVector png = make_png(make_image(2, 3, 2), {}, png_chunk("eXIf", exif));
  for (size_t left_out = 0; left_out < exif.size() + 24; ++left_out) {
    const auto header = read_header(Bytes(png).first(png.size() - left_out), true);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->orientation == Orientation{}, left_out > 12);
  }
}

}  // namespace
}  // namespace forebay::image
