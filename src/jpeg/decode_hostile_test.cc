// Truncated files, flipped bytes and missing tables: the decoder and the rewrite report errors, and
// the next good image is not affected.
#include <gtest/gtest.h>

#include "jpeg/decode.h"
#include "jpeg/format/markers.h"
#include "jpeg/rewrite/rewrite.h"
#include "jpeg/testing/jpeg_samples.h"

namespace forebay::jpeg {
namespace {

using base::ByteVector;
using base::Code;
using base::Pixels;
using base::Rect;

// Runs everything on bytes that may be damaged. Only crashes matter.
void exercise(Bytes file, Decoder& decoder) {
  static Decoder of_damaged({.damaged = Damaged::kDecode});
  Pixels pixels;
  (void)of_damaged.decode(file, std::nullopt, &pixels);
  (void)decoder.decode(file, std::nullopt, &pixels);
  (void)decoder.decode(file, Rect{1, 1, 3, 3}, &pixels);
  if (const auto out = rewrite(file)) (void)extract_region(out->index, out->file, {0, 0, 1, 1});
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
      // A separate copy, so that AddressSanitizer notices reads after its end.
      const ByteVector cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
      Pixels pixels;
      const Status status = decoder.decode(cut, std::nullopt, &pixels);
      if (!progressive && length >= good.size() - 2) {  // only the end marker is missing
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
        // Large sizes are slow, and header_test.cc tests them.
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

}  // namespace
}  // namespace forebay::jpeg
