// ImageDecoder gives Pillow's pixels for PNG and WebP files of every kind, and survives hostile
// bytes.
#include "image/codec/decode.h"

#include "base/checksum.h"
#include "base/limits.h"
#include "image/testing/golden_files.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Code;

TEST(Decode, EqualsPillow) {
  EXPECT_EQ(golden_files().size(), 21u);
  ImageDecoder decoder;
  for (const auto& [name, file] : golden_files()) {
    Pixels out;
    const Status status = decoder.decode(file.bytes, std::nullopt, &out);
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    EXPECT_EQ(base::to_hex(base::sha256(out.rgb)), file.digest) << name;
    EXPECT_EQ(read_header(file.bytes).value().size, file.size) << name;
    EXPECT_EQ(sniff(file.bytes), name.starts_with("webp") ? Format::kWebp : Format::kPng);
  }
}

TEST(Decode, RegionEqualsTheWholeCut) {
  ImageDecoder decoder;
  for (const char* name : {"rgb", "grey16", "webp_lossy"}) {
    const GoldenFile& file = golden_files().at(name);
    Pixels whole;
    ASSERT_TRUE(decoder.decode(file.bytes, std::nullopt, &whole).ok());
    const Rect region{3, 2, 7, 4};
    Pixels out;
    ASSERT_TRUE(decoder.decode(file.bytes, region, &out).ok());
    ASSERT_EQ(out.rgb.size(), 7u * 4 * 3);
    for (size_t y = 0; y < 4; ++y) {
      EXPECT_EQ(std::memcmp(out.rgb.data() + y * 21,
                            whole.rgb.data() + ((y + 2) * whole.width + 3) * 3, 21),
                0);
    }
    EXPECT_EQ(decoder.decode(file.bytes, Rect{7, 0, 7, 1}, &out).code(), Code::kInvalid);
    EXPECT_EQ(decoder.decode(file.bytes, Rect{0, 0, 0, 1}, &out).code(), Code::kInvalid);
  }
}

// Decoding `bad` bytes gives an answer, and the next good file is decoded as before. With
// `must_fail`, bytes that give other pixels must be an error.
void expect_survives(ImageDecoder& decoder, const GoldenFile& good, Bytes bad, bool must_fail) {
  Pixels out;
  const Status status = decoder.decode(bad, std::nullopt, &out);
  EXPECT_TRUE(!must_fail || !status.ok() || base::to_hex(base::sha256(out.rgb)) == good.digest);
  if (!status.ok()) {
    EXPECT_FALSE(status.message().empty());
    ASSERT_TRUE(decoder.decode(good.bytes, std::nullopt, &out).ok());
    ASSERT_EQ(base::to_hex(base::sha256(out.rgb)), good.digest);
  }
}

TEST(Decode, SurvivesTruncationAtEveryLength) {
  ImageDecoder decoder;
  for (const auto& [name, file] : golden_files()) {
    SCOPED_TRACE(name);
    for (size_t length = 0; length < file.bytes.size(); ++length) {
      // libwebp does not need the last bytes of a file to decode its pixels.
      const bool must_fail = name.starts_with("webp") ? length < 30 : true;
      const ByteVector bad(file.bytes.begin(), file.bytes.begin() + static_cast<long>(length));
      expect_survives(decoder, file, bad, must_fail);
    }
  }
}

TEST(Decode, SurvivesEveryByteFlipped) {
  ImageDecoder decoder;
  for (const auto& [name, file] : golden_files()) {
    SCOPED_TRACE(name);
    for (size_t at = 0; at < file.bytes.size(); ++at) {
      for (const int mask : {0xFF, 0x01, 0x80}) {
        ByteVector bad = file.bytes;
        bad[at] = static_cast<uint8_t>(bad[at] ^ mask);
        // A CRC covers every byte of a PNG's pixels, or the byte belongs to a CRC.
        expect_survives(decoder, file, bad, !name.starts_with("webp"));
      }
    }
  }
}

TEST(Decode, NamesTheFirstBytesOfOtherFormats) {
  Pixels out;
  const Status status = ImageDecoder().decode(base::as_bytes("GIF89a..."), std::nullopt, &out);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("4749463839612e2e"), std::string::npos) << status.message();
  EXPECT_EQ(ImageDecoder().decode({}, std::nullopt, &out).code(), Code::kUnsupported);
  EXPECT_EQ(base::status_of(read_header(base::as_bytes("BM"))).code(), Code::kUnsupported);
}

ByteVector png_of_size(uint32_t width, uint32_t height) {
  ByteVector bytes = golden_files().at("rgb").bytes;
  for (size_t i = 0; i < 4; ++i) {
    bytes[16 + i] = static_cast<uint8_t>(width >> (24 - 8 * i));
    bytes[20 + i] = static_cast<uint8_t>(height >> (24 - 8 * i));
  }
  return bytes;
}

TEST(Decode, RefusesSizesAboveTheLimitsBeforeAllocating) {
  constexpr uint32_t kSide = base::kImageSideMax;
  EXPECT_EQ(base::status_of(read_header(png_of_size(kSide + 1, 1))).code(), Code::kTooBig);
  EXPECT_EQ(base::status_of(read_header(png_of_size(1, kSide + 1))).code(), Code::kTooBig);
  EXPECT_EQ(base::status_of(read_header(png_of_size(kSide, 4097))).code(), Code::kTooBig);
  EXPECT_TRUE(read_header(png_of_size(kSide, 4096)));
  EXPECT_EQ(base::status_of(read_header(png_of_size(0, 1))).code(), Code::kCorrupt);
  Pixels out;
  const ByteVector huge = png_of_size(~0u, ~0u);
  EXPECT_EQ(ImageDecoder().decode(huge, std::nullopt, &out).code(), Code::kTooBig);
  EXPECT_EQ(out.rgb.capacity(), 0u);
}

}  // namespace
}  // namespace forebay::image
