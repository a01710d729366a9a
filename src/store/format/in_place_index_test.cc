// The codec of the index of data in place: round trips, damage, and content that is refused
// although the checksum is right.
#include "store/format/in_place_index.h"

#include <gmock/gmock.h>

#include "base/limits.h"

namespace forebay::store {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::HasSubstr;

InPlaceIndex make_folder() {
  InPlaceIndex index;
  index.schema = {.fields = {{"image", FieldKind::kImage}, {"class", FieldKind::kClass}},
                  .classes = {"cat", "dog"}};
  index.notes = {"one is left out"};
  index.folders = {{"cat", 6}, {"dog", -7}};
  index.add("cat/1", "cat/1.jpg", {.length = 100, .label = 0});
  index.add("cat/a%2Eb", "cat/a.b.jpg", {.length = UINT32_MAX, .label = 0});
  index.add("dog/1", "dog/1.png", {.length = 0, .label = 1});
  index.fingerprint = base::sha256(base::as_bytes("content"));
  return index;
}

InPlaceIndex make_shards() {
  InPlaceIndex index;
  index.kind = SourceKind::kWebDataset;
  index.has_checksums = true;
  index.schema = {.fields = {{"image", FieldKind::kImage}}, .classes = {}};
  index.shards = {{"0.tar", 10'000, 3, 2}, {"1.tar", 512, 4, 0}, {"2.tar", 6'000'000'000, 5, 1}};
  index.add("1", "1.jpg", {.offset = 512, .length = 100, .crc32c = 77});
  index.add("2", "2.jpg", {.offset = 9'900, .length = 100, .crc32c = 78, .label = 9});
  index.add("3", "3.jpg", {.offset = 5'000'000'000, .length = 100, .crc32c = 79});
  return index;
}

TEST(InPlaceIndex, NamesAreKeysAndPaths) {
  const InPlaceIndex index = make_folder();
  EXPECT_EQ(index.key(1), "cat/a%2Eb");
  EXPECT_EQ(index.path(1), "cat/a.b.jpg");
  EXPECT_EQ(index.path(2), "dog/1.png");
  // Names that paths share with keys are stored once.
  EXPECT_EQ(index.names, "cat/1.jpgcat/a%2Eb.b.jpgdog/1.png");
}

TEST(InPlaceIndex, RoundTripAndDamage) {
  for (const InPlaceIndex& index : {make_folder(), make_shards()}) {
    const ByteVector data = encode_in_place_index(index);
    EXPECT_EQ(decode_in_place_index(data).value(), index);
    for (size_t at = 0; at < data.size(); ++at) {
      EXPECT_EQ(base::status_of(decode_in_place_index(Bytes(data).first(at))).code(),
                Code::kCorrupt)
          << at;
      ByteVector bad = data;
      bad[at] ^= 0x10;
      EXPECT_EQ(base::status_of(decode_in_place_index(bad)).code(), Code::kCorrupt) << at;
    }
  }
}

// An index that was cut off is refused, even if its checksum is right.
TEST(InPlaceIndex, EveryPrefixIsRefused) {
  for (const InPlaceIndex& index : {make_folder(), make_shards()}) {
    const ByteVector data = encode_in_place_index(index);
    for (size_t length = 8; length < data.size() - 4; ++length) {
      ByteVector bad(data.begin(), data.begin() + static_cast<ptrdiff_t>(length));
      base::ByteWriter(&bad).number(base::crc32c(bad));
      EXPECT_EQ(base::status_of(decode_in_place_index(bad)).code(), Code::kCorrupt) << length;
    }
  }
}

TEST(InPlaceIndex, RefusesWhatMakesNoSense) {
  const auto refused = [](InPlaceIndex index, auto change) {
    change(index);
    return base::status_of(decode_in_place_index(encode_in_place_index(index))).message();
  };
  const auto folder = [&](auto change) { return refused(make_folder(), change); };
  const auto shards = [&](auto change) { return refused(make_shards(), change); };
  EXPECT_EQ(folder([](auto&) {}), "");
  EXPECT_THAT(folder([](auto& i) { i.samples[1].label = 2; }),
              HasSubstr("class number 2 is out of range"));
  EXPECT_THAT(folder([](auto& i) { i.samples[1].label = -2; }), HasSubstr("class number -2"));
  EXPECT_THAT(folder([](auto& i) { i.samples.clear(); }), HasSubstr("0 samples"));
  EXPECT_THAT(folder([](auto& i) { i.folders.clear(); }), HasSubstr("its kind of data"));
  for (const char* path : {"../x", "", "/x"}) {
    EXPECT_THAT(folder([&](auto& i) { i.folders[1].path = path; }),
                HasSubstr("its path is not valid"));
  }
  EXPECT_THAT(folder([](auto& i) { i.notes.resize(base::kInPlaceNotesMax + 1); }),
              HasSubstr("17 notes"));
  for (const char* path : {"../a.jpg", "/etc/passwd", "a/../../b", "a//b", "x/"}) {
    EXPECT_THAT(folder([&](auto& i) { i.add("k", path, {}); }), HasSubstr("leads out"));
  }
  EXPECT_THAT(shards([](auto& i) { i.samples[1].offset = 600; }), HasSubstr("overlaps another"));
  EXPECT_THAT(shards([](auto& i) { i.samples[1].length = 101; }), HasSubstr("outside it"));
  EXPECT_THAT(shards([](auto& i) { i.shards[1].samples = 1; }), HasSubstr("4 in its shards"));
  EXPECT_THAT(shards([](auto& i) { i.shards.clear(); }), HasSubstr("its kind of data"));
}

TEST(InPlaceIndex, AnotherVersionIsUnsupported) {
  ByteVector data = encode_in_place_index(make_folder());
  data[7] = 1;
  data.resize(data.size() - 4);
  base::ByteWriter(&data).number(base::crc32c(data));
  EXPECT_EQ(base::status_of(decode_in_place_index(data)).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace forebay::store
