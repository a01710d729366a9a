#include "train/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/random.h"

namespace forebay::train {
namespace {

using base::Code;

ByteVector file_of(std::string_view header, size_t data_bytes) {
  ByteVector file;
  base::ByteWriter writer(&file);
  writer.number(static_cast<uint64_t>(header.size()));
  writer.bytes(base::as_bytes(header));
  file.resize(file.size() + data_bytes);
  return file;
}

Safetensors example(const ByteVector& data) {
  return {{{"format", "pt"}},
          {{"b", "F32", {2, 2}, Bytes(data).first(16)},
           {"a", "I64", {}, Bytes(data).subspan(16, 8)},
           {"empty", "BF16", {0, 3}, {}}}};
}

TEST(Safetensors, RoundTrip) {
  ByteVector data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i);
  const auto file = encode_safetensors(example(data));
  ASSERT_TRUE(file) << file.error().message();
  const auto back = decode_safetensors(*file);
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->metadata.at("format"), "pt");
  ASSERT_EQ(back->tensors.size(), 3U);
  EXPECT_EQ(back->tensors[0].name, "a");  // tensors of larger elements come first
  EXPECT_EQ(back->tensors[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_TRUE(std::equal(data.begin(), data.begin() + 16, back->tensors[1].data.begin()));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const ByteVector data(24);
  const ByteVector file = *encode_safetensors(example(data));
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(decode_safetensors(Bytes(file).first(length))) << length;
  }
}

TEST(Safetensors, FlippedBitsNeverEscapeTheFile) {
  const ByteVector data(24);
  const ByteVector file = *encode_safetensors(example(data));
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    ByteVector flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    const auto back = decode_safetensors(flipped);
    if (!back) continue;
    for (const TensorView& tensor : back->tensors) {
      if (tensor.data.empty()) continue;
      EXPECT_GE(tensor.data.data(), flipped.data());
      EXPECT_LE(tensor.data.data() + tensor.data.size(), flipped.data() + flipped.size());
    }
  }
}

TEST(Safetensors, HostileHeadersAreRefused) {
  const std::string deep(100'000, '[');
  for (const std::string& header :
       {std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32",)"
                    R"("shape":[1],"data_offsets":[4,8]}})"),                      // overlap
        std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),  // gap
        std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),  // bytes after it
        std::string(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})"),
        std::string(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],)"
                    R"("data_offsets":[0,8]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})"),
        std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":1})"),
        std::string(R"({"__metadata__":{"x":1},"a":{"dtype":"F32","shape":[2],)"
                    R"("data_offsets":[0,8]}})"),
        std::string("[]"), std::string("{"), std::string(), deep, R"({"a":)" + deep}) {
    const auto back = decode_safetensors(file_of(header, 8));
    ASSERT_FALSE(back) << header.substr(0, 200);
    EXPECT_EQ(back.error().code(), Code::kCorrupt);
  }
}

TEST(Safetensors, HeaderLimit) {
  ByteVector file(16);
  base::store_le(file.data(), base::kSafetensorsHeaderMax + 1);
  EXPECT_EQ(decode_safetensors(file).error().code(), Code::kTooBig);
  base::store_le(file.data(), base::kSafetensorsHeaderMax);
  EXPECT_EQ(decode_safetensors(file).error().code(), Code::kCorrupt);
}

TEST(Safetensors, EncodingRefusesNamesThatComeTwice) {
  const ByteVector data(4);
  Safetensors content{{}, {{"a", "F32", {1}, data}, {"a", "F32", {1}, data}}};
  EXPECT_EQ(encode_safetensors(content).error().code(), Code::kInvalid);
  content.tensors = {{"__metadata__", "F32", {1}, data}};
  EXPECT_EQ(encode_safetensors(content).error().code(), Code::kInvalid);
}

}  // namespace
}  // namespace forebay::train
