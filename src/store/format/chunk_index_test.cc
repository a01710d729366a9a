#include "store/format/chunk_index.h"

#include <gmock/gmock.h>

#include "base/checksum.h"
#include "base/limits.h"
#include "base/random.h"

namespace forebay::store {
namespace {

using base::ByteVector;
using base::Code;
using ::testing::HasSubstr;

constexpr uint64_t kChunkBytes = 64 << 20;

uint64_t file_bytes(const jpeg::RestartIndex& restart) {
  uint64_t total = restart.header_bytes + 2 * restart.segments.size();
  for (const auto& segment : restart.segments) total += segment.length;
  return total;
}

ScalarValue scalar(uint16_t field, std::variant<int64_t, std::string> value) {
  ScalarValue out;
  out.field = field;
  out.value = std::move(value);
  return out;
}

jpeg::RestartIndex make_restart(base::Random& random, size_t segments) {
  jpeg::RestartIndex restart{.header_bytes = static_cast<uint32_t>(random.below(700)),
                             .header_crc32c = random.next_u32(),
                             .segments = {}};
  constexpr std::array<uint32_t, 5> kLengths = {0, 65534, 65535, 65536, 200'000};
  for (size_t i = 0; i < segments; ++i) {
    const bool odd = random.below(50) == 0;
    const auto length = odd ? kLengths[random.below(5)] : static_cast<uint32_t>(random.below(600));
    restart.segments.push_back({length, static_cast<uint16_t>(random.next_u32())});
  }
  return restart;
}

ChunkIndex make_index(base::Random& random, size_t samples, size_t segments) {
  ChunkIndex index;
  index.schema = {.fields = {{"jpg", FieldKind::kImage},
                             {"seg", FieldKind::kBytes},
                             {"cls", FieldKind::kClass},
                             {"json", FieldKind::kJson},
                             {"txt", FieldKind::kText}},
                  .classes = {"cat", "dog", ""}};
  uint64_t at = 4096;
  for (size_t i = 0; i < samples; ++i) {
    IndexedSample sample{.key = fmt::format("train/{:06}", i), .source_path = {}, .files = {}};
    if (random.below(4) != 0) sample.source_path = sample.key + ".JPEG";
    StoredFile image{.field = 0, .suffix = random.below(3) == 0 ? "jpeg" : "jpg", .offset = at};
    image.subsampling = static_cast<jpeg::Subsampling>(random.below(9));
    image.length = random.below(100'000);
    if (segments > 0 && random.below(3) != 0) {
      image.restart = make_restart(random, 1 + random.below(segments));
      image.length = file_bytes(*image.restart);
    }
    image.crc32c = random.next_u32();
    image.width = static_cast<uint32_t>(random.below(base::kImageSideMax + 1));
    image.height = static_cast<uint32_t>(random.below(base::kImageSideMax + 1));
    at += image.length + random.below(2000);
    sample.files.push_back(image);
    if (random.below(2) == 0)
      sample.files.push_back({.field = 1, .suffix = "seg.png", .offset = at});
    if (random.below(2) == 0) {
      sample.scalars.push_back(scalar(2, static_cast<int64_t>(random.below(3))));
      sample.scalars.push_back(scalar(3, std::string("{\"a\": 1}")));
      sample.scalars.push_back(scalar(4, std::string(random.below(300), 't')));
    }
    index.samples.push_back(sample);
  }
  return index;
}

Code code_of(const ChunkIndex& index, uint64_t chunk_bytes = kChunkBytes) {
  return base::status_of(decode_chunk_index(encode_chunk_index(index), chunk_bytes)).code();
}

TEST(ChunkIndex, RoundTripProperty) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  base::Random random(seed, base::Purpose::kTest);
  for (int round = 0; round < 200; ++round) {
    const ChunkIndex index = make_index(random, random.below(20), random.below(100));
    const auto decoded = decode_chunk_index(encode_chunk_index(index), 1ull << 40);
    ASSERT_TRUE(decoded) << decoded.error().message();
    EXPECT_EQ(*decoded, index);
  }
}

TEST(ChunkIndex, SizeDoesNotDependOnOffsets) {
  base::Random random(3, base::Purpose::kTest);
  ChunkIndex index = make_index(random, 9, 20);
  const size_t bytes = encode_chunk_index(index).size();
  for (auto& sample : index.samples) {
    for (auto& file : sample.files) file.offset = 1ull << 33, file.crc32c = 0, file.width = 0;
  }
  EXPECT_EQ(encode_chunk_index(index).size(), bytes);
}

TEST(ChunkIndex, ASegmentCostsFourBytes) {
  base::Random random(5, base::Purpose::kTest);
  ChunkIndex index = make_index(random, 1, 0);
  const size_t without = encode_chunk_index(index).size();
  auto& image = index.samples[0].files[0];
  image.restart = jpeg::RestartIndex{.header_bytes = 600, .header_crc32c = 1, .segments = {}};
  image.restart->segments.assign(376, {300, 7});
  image.length = file_bytes(*image.restart);
  EXPECT_EQ(encode_chunk_index(index).size(), without + 12 + 4 * 376);
}

TEST(ChunkIndex, EveryTruncationAndEveryFlippedByteIsCorrupt) {
  base::Random random(2, base::Purpose::kTest);
  const ByteVector data = encode_chunk_index(make_index(random, 5, 10));
  for (size_t length = 0; length < data.size(); ++length) {
    const auto decoded = decode_chunk_index(Bytes(data).first(length), kChunkBytes);
    ASSERT_FALSE(decoded) << length;
    EXPECT_EQ(decoded.error().code(), Code::kCorrupt) << length;
  }
  for (size_t at = 0; at < data.size(); ++at) {
    ByteVector bad = data;
    bad[at] ^= static_cast<uint8_t>(1 + random.below(255));
    const auto decoded = decode_chunk_index(bad, kChunkBytes);
    ASSERT_FALSE(decoded) << at;
    EXPECT_EQ(decoded.error().code(), Code::kCorrupt) << at;
  }
}

// Indexes with a right checksum, but with content of a hostile or broken writer.
TEST(ChunkIndex, TruncatedContentWithARightChecksumIsRefused) {
  base::Random random(2, base::Purpose::kTest);
  const ByteVector data = encode_chunk_index(make_index(random, 3, 10));
  for (size_t length = 8; length + 4 < data.size(); ++length) {
    ByteVector bad(data.begin(), data.begin() + static_cast<ptrdiff_t>(length));
    base::ByteWriter(&bad).number(base::crc32c(bad));
    EXPECT_FALSE(decode_chunk_index(bad, kChunkBytes)) << length;
  }
  ByteVector longer(data.begin(), data.end() - 4);
  longer.push_back(0);
  base::ByteWriter(&longer).number(base::crc32c(longer));
  EXPECT_FALSE(decode_chunk_index(longer, kChunkBytes));
}

TEST(ChunkIndex, AnotherVersionIsUnsupported) {
  ByteVector data = encode_chunk_index({});
  data[7] = 1;
  data.resize(data.size() - 4);
  base::ByteWriter(&data).number(base::crc32c(data));
  const auto decoded = decode_chunk_index(data, kChunkBytes);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code(), Code::kUnsupported);
}

ChunkIndex small_index() {
  ChunkIndex index;
  index.schema = {.fields = {{"jpg", FieldKind::kImage}, {"cls", FieldKind::kClass}},
                  .classes = {"cat"}};
  for (uint64_t i = 0; i < 2; ++i) {
    IndexedSample sample{.key = std::string(1, static_cast<char>('a' + i)), .source_path = "p"};
    sample.files.push_back({.field = 0, .suffix = "jpg", .offset = 1024 * i, .length = 1000});
    sample.scalars.push_back(scalar(1, int64_t{0}));
    index.samples.push_back(sample);
  }
  return index;
}

TEST(ChunkIndex, NamesWhatIsWrong) {
  ASSERT_EQ(code_of(small_index()), Code::kOk);
  const auto refused = [](auto change) {
    ChunkIndex index = small_index();
    change(index);
    const auto decoded = decode_chunk_index(encode_chunk_index(index), 2048);
    return decoded ? "" : decoded.error().message();
  };
  const auto first = [](ChunkIndex& index) -> auto& { return index.samples[0].files[0]; };
  EXPECT_THAT(refused([](auto& i) { i.samples[1].key = "a"; }), HasSubstr("have the key \"a\""));
  EXPECT_THAT(refused([](auto& i) { i.samples[1].key = ""; }), HasSubstr("sample 1: its key"));
  EXPECT_THAT(refused([&](auto& i) { first(i).offset = 500; }), HasSubstr("overlap at byte 1024"));
  EXPECT_THAT(refused([&](auto& i) { first(i).offset = 1049; }), HasSubstr("of a chunk of 2048"));
  EXPECT_THAT(refused([&](auto& i) { first(i).offset = ~0ull; }), HasSubstr("of a chunk of 2048"));
  EXPECT_THAT(refused([&](auto& i) { first(i).field = 2; }), HasSubstr("field number 2"));
  EXPECT_THAT(refused([&](auto& i) { first(i).width = 16385; }), HasSubstr("above the limits"));
  EXPECT_THAT(refused([](auto& i) { i.samples[0].scalars[0].value = int64_t{1}; }),
              HasSubstr("class number 1 is out of range"));
  EXPECT_THAT(refused([](auto& i) { i.samples[0].scalars[0].value = int64_t{-1}; }),
              HasSubstr("class number -1"));
  EXPECT_THAT(refused([](auto& i) { i.samples[0].scalars[0].field = 0; }),
              HasSubstr("holds files"));
  EXPECT_THAT(refused([](auto& i) { i.samples[0].scalars.push_back(scalar(1, int64_t{0})); }),
              HasSubstr("a field twice"));
  EXPECT_THAT(refused([](auto& i) { i.schema.fields[1].name = "jpg"; }), HasSubstr("used twice"));
  EXPECT_THAT(refused([](auto& i) { i.schema.fields[0].kind = static_cast<FieldKind>(6); }),
              HasSubstr("unknown kind 6"));
  EXPECT_THAT(refused([&](auto& i) { first(i).subsampling = static_cast<jpeg::Subsampling>(9); }),
              HasSubstr("unknown value"));
  EXPECT_THAT(refused([&](auto& i) { first(i).restart = jpeg::RestartIndex{600, 0, {{1, 1}}}; }),
              HasSubstr("603 bytes, but the file has 1000"));
  EXPECT_THAT(refused([&](auto& i) { first(i).restart = jpeg::RestartIndex{1000, 0, {}}; }),
              HasSubstr("0 segments"));
}

TEST(ChunkIndex, LimitsFromBothSides) {
  const auto with = [](auto change) {
    ChunkIndex index = small_index();
    change(index);
    return code_of(index);
  };
  const auto key = [&](size_t n) {
    return with([n](auto& i) { i.samples[0].key.assign(n, 'k'); });
  };
  EXPECT_EQ(key(base::kKeyBytesMax), Code::kOk);
  EXPECT_EQ(key(base::kKeyBytesMax + 1), Code::kCorrupt);
  const auto path = [&](size_t n) {
    return with([n](auto& i) { i.samples[0].source_path.assign(n, 'p'); });
  };
  EXPECT_EQ(path(base::kSourcePathBytesMax), Code::kOk);
  EXPECT_EQ(path(base::kSourcePathBytesMax + 1), Code::kCorrupt);
  const auto fields = [&](size_t n) {
    return with([n](auto& i) {
      while (i.schema.fields.size() < n) {
        i.schema.fields.push_back({fmt::format("f{}", i.schema.fields.size()), FieldKind::kText});
      }
    });
  };
  EXPECT_EQ(fields(base::kFieldsMax), Code::kOk);
  EXPECT_NE(fields(base::kFieldsMax + 1), Code::kOk);
  const auto text = [&](size_t n) {
    return with([n](auto& i) {
      i.schema.fields[1].kind = FieldKind::kText;
      i.samples[0].scalars[0].value = std::string(n, 't');
      i.samples[1].scalars.clear();
    });
  };
  EXPECT_EQ(text(base::kScalarBytesMax), Code::kOk);
  EXPECT_EQ(text(base::kScalarBytesMax + 1), Code::kCorrupt);
}

}  // namespace
}  // namespace forebay::store
