// Samples of images with an orientation tag equal samples of files whose pixels are stored as they
// are shown.
#include "image/batch_decoder.h"
#include "image/testing/devices.h"
#include "image/testing/golden_files.h"
#include "image/testing/oriented_files.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::image {
namespace {

using base::Purpose;
using base::Random;

struct Pair {
  ByteVector stored;  // with a tag
  ByteVector turned;  // a PNG of what it shows
};

Pair make_pair(const ByteVector& file, const ByteVector& with_tag, uint64_t tag) {
  Pixels pixels;
  EXPECT_TRUE(ImageDecoder().decode(file, std::nullopt, &pixels).ok());
  return {with_tag, make_png(shown(pixels, tag))};
}

std::vector<Pair> make_pairs() {
  std::vector<Pair> out;
  const GoldenFile& webp = golden_files().at("webp_lossy");
  Random random(3, Purpose::kTest);
  for (uint64_t tag = 1; tag <= 8; ++tag) {
    const ByteVector exif = exif_with(tag);
    for (const uint32_t most : {1U, 40U, 200U}) {
      const auto side = [&] { return 1 + static_cast<uint32_t>(random.below(most)); };
      const ByteVector jpeg = jpeg::make_jpeg({.width = side(),
                                               .height = side(),
                                               .across = 2,
                                               .down = 1 + static_cast<int>(tag % 2),
                                               .restart = 2});
      out.push_back(make_pair(jpeg, jpeg_with_exif(jpeg, exif), tag));
      const Pixels pixels = make_image(side(), side(), 4);
      out.push_back(make_pair(make_png(pixels), make_png(pixels, png_chunk("eXIf", exif)), tag));
    }
    out.push_back(make_pair(webp.bytes, webp_with(webp.bytes, webp.size, "EXIF", exif), tag));
  }
  return out;
}

// Returns the sample and its size.
OwnSize prepared(Transform transform, Bytes file, uint64_t number, bool oriented) {
  transform.oriented = oriented;
  Preparer preparer(transform, {.dtype = DType::kUint8});
  OwnSize out;
  PrepareRequest request{.file = file, .random = Random(9, Purpose::kAugment, 0, number)};
  request.own = &out;
  preparer.prepare({&request, 1});
  EXPECT_TRUE(request.status.ok()) << request.status.message();
  return out;
}

TEST(PrepareOriented, IsTheSampleOfTurnedPixels) {
  const Border grey{.fill = {7, 8, 9}};
  const std::array<Transform, 8> transforms{{
      {.size = square(24)},
      {.size = {31, 12}, .vertical_flip = 0.5, .interpolation = Interpolation::kBicubic},
      {.size = square(9), .interpolation = Interpolation::kNearest},
      {.size = {20, 30}, .crop = CentreCrop{}},
      {.size = square(16), .crop = CentreCrop{ShortSide{18}}, .flip = 0},
      {.size = square(28), .crop = RandomCrop{.pad_if_needed = true, .border = grey}},
      {.size = {}, .crop = WholeImage{}},
      {.size = {13, 17}, .steps = {Action{QuarterTurns{2}}, Action{Sharpness{1.5}}}},
  }};
  uint64_t number = 0;
  for (const Pair& pair : make_pairs()) {
    for (size_t i = 0; i < transforms.size(); ++i) {
      SCOPED_TRACE(fmt::format("file {}, transform {}", number, i));
      const OwnSize expected = prepared(transforms[i], pair.turned, number, false);
      const OwnSize made = prepared(transforms[i], pair.stored, number, true);
      ASSERT_EQ(made.size, expected.size);
      ASSERT_EQ(made.bytes, expected.bytes);
    }
    ++number;
  }
}

TEST(PrepareOriented, BatchesOnADeviceAreTheHosts) {
  std::vector<ByteVector> files;
  for (const Pair& pair : make_pairs()) files.push_back(pair.stored);
  const Transform transform{.size = square(20), .oriented = true};
  const TensorOptions options{.dtype = DType::kUint8};
  const size_t bytes = size_t{3} * 20 * 20;
  ByteVector expected(files.size() * bytes);
  for (size_t i = 0; i < files.size(); ++i) {
    const OwnSize one = prepared(transform, files[i], i, true);
    std::ranges::copy(one.bytes, expected.begin() + static_cast<ptrdiff_t>(i * bytes));
  }
  for (const auto& device : devices()) {
    const auto decoder = BatchDecoder::make(transform, options, device, 1).value();
    const std::vector<Bytes> views(files.begin(), files.end());
    const auto stored = decoder->store(views).value();
    for (const bool is_stored : {false, true}) {
      const DeviceBytes memory(*device, ByteVector(expected.size()));
      std::vector<PrepareRequest> requests;
      for (size_t i = 0; i < files.size(); ++i) {
        PrepareRequest& request =
            requests.emplace_back(PrepareRequest{.file = files[i],
                                                 .random = Random(9, Purpose::kAugment, 0, i),
                                                 .out = memory.data() + i * bytes});
        if (!is_stored) continue;
        request.file = stored[i]->file;
        request.stored = stored[i]->jpeg ? &*stored[i]->jpeg : nullptr;
      }
      const auto pending = decoder->begin(std::move(requests), nullptr);
      for (const PrepareRequest& request : pending->finish()) EXPECT_TRUE(request.status.ok());
      EXPECT_EQ(memory.content(), expected);
    }
  }
}

// Decodes smooth images at a smaller scale, where a shift by one scaled pixel (8 stored pixels)
// would be visible.
TEST(PrepareOriented, ScaledDecodingKeepsPlaces) {
  Random random(24, Purpose::kTest);
  for (uint64_t i = 0; i < 200; ++i) {
    const jpeg::Sample sample{.width = 60 + static_cast<uint32_t>(random.below(100)),
                              .height = 60 + static_cast<uint32_t>(random.below(100)),
                              .quality = 97,
                              .gradient = true};
    SCOPED_TRACE(sample.name());
    const uint64_t tag = 2 + i % 7;
    const ByteVector file = jpeg_with_exif(jpeg::make_jpeg(sample), exif_with(tag));
    Transform transform{.size = square(5 + static_cast<uint32_t>(random.below(8))),
                        .crop = RandomResizedCrop{.scale_min = 0.3}};
    const OwnSize exact = prepared(transform, file, i, true);
    transform.scaled_decode = true;
    const OwnSize scaled = prepared(transform, file, i, true);
    double sum = 0;
    for (size_t at = 0; at < exact.bytes.size(); ++at) {
      sum += std::abs(int{scaled.bytes[at]} - int{exact.bytes[at]});
    }
    const double step = 255.0 / (sample.width + sample.height);  // from pixel to pixel
    EXPECT_LT(sum / static_cast<double>(exact.bytes.size()), 1.5 * step);
  }
}

}  // namespace
}  // namespace forebay::image
