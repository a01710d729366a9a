// The sizes in a frame header are checked against base/limits.h before anything is allocated.
#include "jpeg/format/header.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "jpeg/format/markers.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;

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

}  // namespace
}  // namespace forebay::jpeg
