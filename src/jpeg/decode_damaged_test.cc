// Odd files whose pixels are complete are decoded without an error. Damaged files give
// libjpeg-turbo's pixels, for any kernel, region and scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "jpeg/decode.h"
#include "jpeg/format/markers.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"
#include "jpeg/testing/kernel_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;
using base::Purpose;
using base::Random;
using base::Rect;

ByteVector joined(std::initializer_list<Bytes> parts) {
  ByteVector out;
  for (const Bytes part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

ByteVector inserted(Bytes file, size_t at, const ByteVector& more) {
  return joined({file.first(at), more, file.subspan(at)});
}

// The position of the first marker of a kind, and of its payload.
struct Found {
  size_t offset = 0;
  size_t payload = 0;
};
Found find(Bytes file, uint8_t code) {
  MarkerReader reader(file);
  while (true) {
    const auto marker = reader.next();
    EXPECT_TRUE(marker);
    if (!marker) return {};
    if (marker->code != code) continue;
    return {marker->offset, static_cast<size_t>(marker->payload.data() - file.data())};
  }
}

ByteVector ascending(size_t count) {
  ByteVector out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<uint8_t>(i + 1));
  return out;
}

// Decodes the whole image with plain libjpeg, like a program that ignores warnings. Returns nothing
// when libjpeg gives up.
class PlainTurbo {
 public:
  static ByteVector decode(Bytes file, uint32_t scale = 1) {
    jpeg_decompress_struct info{};
    Errors errors;
    info.err = jpeg_std_error(&errors.manager);
    errors.manager.output_message = [](j_common_ptr) {};
    errors.manager.error_exit = [](j_common_ptr i) {
      std::longjmp(reinterpret_cast<Errors*>(i->err)->jump, 1);
    };
    static ByteVector rows;
    rows.clear();
    if (setjmp(errors.jump) != 0) {
      jpeg_destroy_decompress(&info);
      return {};
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
    info.out_color_space = JCS_RGB;
    info.scale_denom = scale;
    jpeg_start_decompress(&info);
    const size_t stride = size_t{info.output_width} * 3;
    rows.resize(stride * info.output_height);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = rows.data() + stride * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_destroy_decompress(&info);
    return rows;
  }

 private:
  struct Errors {
    jpeg_error_mgr manager{};
    std::jmp_buf jump{};
  };
};

ByteVector cropped(Bytes rgb, uint32_t width, const Rect& region) {
  ByteVector out;
  for (uint32_t y = region.y; y < region.y + region.height; ++y) {
    const Bytes row = rgb.subspan((size_t{y} * width + region.x) * 3, size_t{region.width} * 3);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// Returns files that differ from `plain` only in parts that do not affect pixels, keyed by their
// oddity.
std::map<std::string, ByteVector> odd_files(const ByteVector& plain) {
  const Found jfif = find(plain, kApp0);
  const size_t end = plain.size() - 2;
  std::map<std::string, ByteVector> out;
  const auto add = [&](const char* name, const ByteVector& more) {
    out[name] = inserted(plain, find(plain, kDqt).offset, more);
  };
  add("APP1 whose length is too small", {0xFF, 0xE1, 0, 6, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M'});
  add("APP1 without a length", {0xFF, 0xE1, 0, 0});
  add("COM of length 1", {0xFF, 0xFE, 0, 1});
  add("cut APP14", {0xFF, 0xEE, 0, 9, 'A', 'd', 'o', 'b', 'e', 0, 100});
  add("text between markers", {'t', 'e', 'x', 't'});
  add("stuffing between markers", {0xFF, 0, 0xFF, 0, 7});
  add("fill bytes", {0xFF, 0xFF, 0xFF});
  ByteVector revision = plain;
  revision[jfif.payload + 5] = 9;
  out["JFIF 9"] = revision;
  ByteVector selection = plain;
  selection[find(plain, kSos).payload + 8] = 0;  // Se
  out["scan of DC alone, by its header"] = selection;
  out["no end marker"] = ByteVector(plain.begin(), plain.end() - 2);
  out["half an end marker"] = ByteVector(plain.begin(), plain.end() - 1);
  out["zeros before the end"] = inserted(plain, end, ByteVector(40));
  out["others before the end"] = inserted(plain, end, ascending(40));
  out["a broken segment after the scan"] = inserted(plain, end, {0xFF, 0xDB, 0, 9, 1, 2});
  out["more after the end"] = joined({plain, ascending(50)});
  return out;
}

TEST(DecodeOdd, WhatDoesNotTouchPixelsCostsNothing) {
  for (const bool large : {false, true}) {
    const Sample sample{.width = large ? 300u : 30u, .height = large ? 200u : 17u, .across = 2};
    const ByteVector plain = make_jpeg(sample);
    Decoder decoder;
    Pixels expected;
    ASSERT_TRUE(decoder.decode(plain, std::nullopt, &expected).ok());
    for (const auto& [name, file] : odd_files(plain)) {
      SCOPED_TRACE(name);
      Pixels out;
      const Status status = decoder.decode(file, std::nullopt, &out);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(out.rgb == expected.rgb);
      const Rect region{5, 3, 20, 9};
      ASSERT_TRUE(decoder.decode(file, region, &out).ok());
      EXPECT_TRUE(out.rgb == cropped(expected.rgb, sample.width, region));
      // The file is rewritten without loss, or kept unchanged.
      const auto rewritten = rewrite(file);
      if (!rewritten) {
        EXPECT_TRUE(rewritten.error().code() == Code::kUnsupported ||
                    name == "a broken segment after the scan")
            << rewritten.error().message();
        continue;
      }
      ASSERT_TRUE(decoder.decode(rewritten->file, std::nullopt, &out).ok());
      EXPECT_TRUE(out.rgb == expected.rgb);
    }
  }
}

// The encoder of these files left bytes before restart markers.
TEST(DecodeOdd, BytesBeforeRestartMarkersCostNothing) {
  const ByteVector plain = make_jpeg({.width = 200, .height = 100, .restart = 8});
  ByteVector file = plain;
  Pixels expected;
  Pixels out;
  ASSERT_TRUE(Decoder().decode(plain, std::nullopt, &expected).ok());
  const ByteVector marker = {0xFF, kRst0 + 3};
  const auto at = std::ranges::search(file, marker).begin();
  const ByteVector more = ascending(20);
  file.insert(at, more.begin(), more.end());
  ASSERT_TRUE(Decoder().decode(file, std::nullopt, &out).ok());
  EXPECT_TRUE(out.rgb == expected.rgb);
}

// libjpeg treats an unknown transform like YCbCr.
TEST(DecodeOdd, UnknownAdobeTransformIsYcc) {
  const ByteVector plain = make_jpeg({.width = 40, .height = 30});
  const Found jfif = find(plain, kApp0);
  const ByteVector adobe = {0xFF, 0xEE, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 7};
  const ByteVector file = joined(
      {Bytes(plain).first(jfif.offset), adobe, Bytes(plain).subspan(find(plain, kDqt).offset)});
  Pixels expected;
  Pixels out;
  ASSERT_TRUE(Decoder().decode(plain, std::nullopt, &expected).ok());
  ASSERT_TRUE(Decoder().decode(file, std::nullopt, &out).ok());
  EXPECT_TRUE(out.rgb == expected.rgb);
}

TEST(DecodeOdd, AQuantiserOfZeroIsTaken) {
  ByteVector file = make_jpeg({.width = 40, .height = 30});
  file[find(file, kDqt).payload + 64] = 0;
  Pixels out;
  ASSERT_TRUE(Decoder().decode(file, std::nullopt, &out).ok());
  EXPECT_TRUE(out.rgb == PlainTurbo::decode(file));
  EXPECT_EQ(rewrite(file).error().code(), Code::kUnsupported);
}

TEST(DecodeOdd, LosslessCodingIsNamedWhereItIsNotRead) {
  ByteVector file = make_jpeg({.width = 40, .height = 30});
  file[find(file, kSof0).offset + 1] = kSof3;
  Pixels out;
  const Status status = Decoder().decode(file, std::nullopt, &out);
  EXPECT_FALSE(status.ok());
  if (LIBJPEG_TURBO_VERSION_NUMBER >= 3'000'000) return;
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("SOF3"), std::string::npos) << status.message();
}

std::vector<Sample> damaged_samples() {
  std::vector<Sample> out;
  for (const int restart : {0, 2}) {
    for (const auto& [across, down] : {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2)}) {
      const Sample sample{
          .width = 90, .height = 70, .across = across, .down = down, .restart = restart};
      out.push_back(sample);
      out.push_back(sample);
      out.back().width = 260;
      out.push_back(sample);
      out.back().progressive = true;
    }
  }
  out.push_back({.width = 100, .height = 60, .components = 1});
  out.push_back({.width = 100, .height = 60, .separate_scans = true});
  return out;
}

ByteVector damage(ByteVector file, Random& random) {
  const size_t header = parse_header(file)->header_bytes;
  const size_t at = header + random.below(file.size() - header);
  switch (random.below(3)) {
    case 0:
      file.resize(at);
      break;
    case 1:
      file[at] ^= static_cast<uint8_t>(1u << random.below(8));
      break;
    default:
      file.erase(file.begin() + static_cast<ptrdiff_t>(at));
  }
  return file;
}

// Decodes a damaged file in every way. Returns true when it is refused by a decoder that does not
// accept damage.
bool check_damaged(const ByteVector& file, std::span<Decoder> decoders, Random& random) {
  const Header header = *parse_header(file);
  const Rect whole{0, 0, header.width, header.height};
  const Rect quarter{0, 0, divide_up(header.width, 4), divide_up(header.height, 4)};
  Decoder refusing;
  Pixels good;
  Pixels expected_quarter;
  const bool refused = !decode(refusing, {file, header, whole}, &good).ok();
  // When the damage is not detectable, coefficients that exceed 16 bits may give pixels other than
  // libjpeg-turbo's.
  const ByteVector expected = refused ? PlainTurbo::decode(file) : good.rgb;
  if (!decode(refusing, {file, header, quarter, 4}, &expected_quarter).ok()) {
    expected_quarter.rgb = PlainTurbo::decode(file, 4);
  }
  const Rect region = random_region(header.width, header.height, random);
  Pixels out;
  for (Decoder& decoder : decoders) {
    const Status status = decode(decoder, {file, header, whole}, &out);
    EXPECT_EQ(status.ok(), !expected.empty()) << status.message();
    EXPECT_TRUE(!status.ok() || out.rgb == expected);
    if (!status.ok() || expected.empty()) continue;
    EXPECT_TRUE(decode(decoder, {file, header, region}, &out).ok());
    EXPECT_TRUE(out.rgb == cropped(expected, header.width, region));
    EXPECT_TRUE(decode(decoder, {file, header, quarter, 4}, &out).ok());
    EXPECT_TRUE(out.rgb == expected_quarter.rgb);
  }
  return refused;
}

TEST(DecodeDamaged, EqualsWhatTurboMakesOfIt) {
  std::vector<Decoder> decoders;
  decoders.emplace_back(DecoderOptions{.damaged = Damaged::kDecode});
  for (const EntropyKernel kernel : kernels()) {
    decoders.emplace_back(
        DecoderOptions{.kernel = kernel, .turbo_where_faster = false, .damaged = Damaged::kDecode});
  }
  Random random(31, Purpose::kTest);
  int refused = 0;
  int files = 0;
  for (const Sample& sample : damaged_samples()) {
    const ByteVector good = make_jpeg(sample);
    for (int i = 0; i < 30 && !testing::Test::HasFailure(); ++i, ++files) {
      SCOPED_TRACE(fmt::format("{}, {}", sample.name(), i));
      refused += check_damaged(damage(good, random), decoders, random) ? 1 : 0;
    }
  }
  EXPECT_GT(refused, files / 2);
}

// A wrong bit may leave part of the scan's data undecoded. This rest must not be taken for foreign
// bytes.
TEST(DecodeDamaged, TheRestOfADamagedScanIsNotTakenForPadding) {
  Random random(32, Purpose::kTest);
  int taken = 0;
  int left_over = 0;
  for (const int components : {1, 3}) {
    const ByteVector good =
        make_jpeg({.width = 400, .height = 300, .components = components, .across = 2, .down = 2});
    const size_t header = parse_header(good)->header_bytes;
    for (int i = 0; i < 300; ++i) {
      ByteVector bad = good;
      bad[header + random.below(good.size() - header - 2)] ^= 16;
      const auto rewritten = rewrite(bad);
      const std::string message = rewritten ? "" : rewritten.error().message();
      taken += message.find("do not belong") != std::string::npos ? 1 : 0;
      left_over += message.find("extraneous") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(left_over, 100);
  EXPECT_LT(taken, left_over / 10);
}

TEST(DecodeDamaged, GoodImagesAreAsEver) {
  Decoder decoder({.damaged = Damaged::kDecode});
  for (const Sample& sample : damaged_samples()) {
    const ByteVector file = make_jpeg(sample);
    Pixels out;
    ASSERT_TRUE(decoder.decode(file, std::nullopt, &out).ok());
    EXPECT_TRUE(out.rgb == PlainTurbo::decode(file)) << sample.name();
  }
}

}  // namespace
}  // namespace forebay::jpeg
