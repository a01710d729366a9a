#include "store/export.h"

#include <gmock/gmock.h>

#include "jpeg/decode.h"
#include "store/pack/pack.h"
#include "store/testing/pack_samples.h"

namespace forebay::store {
namespace {

using base::Code;

TEST(Export, GivesBackPixelsAndNames) {
  io::MemoryFileSystem fs;
  make_source(fs, 9);
  ASSERT_TRUE(pack(fs, "src", "out", small_chunks()));
  ASSERT_TRUE(export_dataset(fs, "out", fs, "back", {}));
  jpeg::Decoder decoder;
  base::Pixels before;
  base::Pixels after;
  for (const auto& [path, data] : contents(fs, "src")) {
    const auto back = fs.read_whole("back" + path.substr(3), 1u << 30);
    ASSERT_TRUE(back) << path;
    ASSERT_TRUE(decoder.decode(data, std::nullopt, &before).ok());
    ASSERT_TRUE(decoder.decode(*back, std::nullopt, &after).ok());
    EXPECT_EQ(before.rgb, after.rgb) << path;
  }
  EXPECT_EQ(export_dataset(fs, "out", fs, "back", {}).error().code(), Code::kExists);
}

}  // namespace
}  // namespace forebay::store
