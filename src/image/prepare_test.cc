// Preparer, from the bytes of a JPEG to the tensor, gives Pillow's pixels with PyTorch's resize.
#include "image/prepare.h"

#include <map>

#include "base/checksum.h"
#include "image/testing/image_samples.h"

namespace forebay::image {
namespace {

using base::ByteVector;
using base::Purpose;
using base::Random;

Interpolation interpolation_of(const std::string& name) {
  if (name == "bilinear") return Interpolation::kBilinear;
  return name == "bicubic" ? Interpolation::kBicubic : Interpolation::kNearest;
}

// Returns the first half of the sample's digest, like in the golden file.
std::string digest_of(Bytes file, const Transform& transform, DType dtype, const Random& random) {
  Preparer preparer(transform, {.dtype = dtype});
  ByteVector out(preparer.sample_bytes());
  const Status status = preparer.prepare(file, random, out.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return base::to_hex(base::sha256(out)).substr(0, 32);
}

void check_draw(Bytes file, const Transform& transform, const Random& random,
                std::istringstream& line) {
  Rect region;
  bool flip = false;
  line >> region.x >> region.y >> region.width >> region.height >> flip;
  const auto drawn = draw(transform, read_header(file)->size, random);
  ASSERT_TRUE(drawn);
  EXPECT_EQ(drawn->cut.region, region);
  EXPECT_EQ(drawn->flip, flip);
}

TEST(Prepare, EqualsPillowAndPyTorch) {
  std::map<std::string, ByteVector> files;
  size_t count = 0;
  for (auto& line : golden_lines("image_prepare.txt")) {
    SCOPED_TRACE(line.str().substr(0, 100));
    std::string kind;
    std::string name;
    line >> kind >> name;
    if (kind == "file") {
      std::string hex;
      line >> hex;
      files[name] = from_hex(hex);
      continue;
    }
    uint32_t size = 0;
    std::string mode;
    uint32_t number = 0;  // the number of the sample, or the resized side
    line >> size >> mode >> number;
    Transform transform{.size = square(size), .interpolation = interpolation_of(mode)};
    if (kind != "train") {
      transform.crop = CentreCrop{ShortSide{number}};
      transform.flip = 0;
    }
    const Random random(31, Purpose::kAugment, 0, number);
    if (kind == "train") check_draw(files.at(name), transform, random, line);
    std::string as_uint8;
    std::string as_float32;
    line >> as_uint8 >> as_float32;
    EXPECT_EQ(digest_of(files.at(name), transform, DType::kUint8, random), as_uint8);
    EXPECT_EQ(digest_of(files.at(name), transform, DType::kFloat32, random), as_float32);
    ++count;
  }
  EXPECT_EQ(files.size(), 12u);
  EXPECT_EQ(count, 12u * (24 + 6 + 4 + 3 * 2));
}

}  // namespace
}  // namespace forebay::image
