#include "train/sync/message_header.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"

namespace forebay::train {
namespace {

using Kind = MessageHeader::Kind;

MessageHeader header(base::Random& random, Kind kind) {
  MessageHeader header{.kind = kind,
                       .sender = random.next_u32(),
                       .number = random.next_u64(),
                       .step = random.next_u64(),
                       .steps = random.next_u64(),
                       .begin = random.next_u64(),
                       .count = random.next_u32(),
                       .encoding = static_cast<Encoding>(random.below(3)),
                       .payload_crc32c = random.next_u32()};
  if (!header.has_payload()) header.count = 0;
  return header;
}

TEST(MessageHeader, EveryKindComesBackTheSame) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    base::Random random(seed, base::Purpose::kTest);
    const MessageHeader sent = header(random, static_cast<Kind>(seed % 5));
    const auto received = decode_message_header(encode_message_header(sent));
    ASSERT_TRUE(received.has_value()) << received.error().message();
    EXPECT_EQ(*received, sent);
  }
}

TEST(MessageHeader, EveryFlippedBitIsFound) {
  base::Random random(1, base::Purpose::kTest);
  const base::ByteVector good = encode_message_header(header(random, Kind::kSlice));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    base::ByteVector bad = good;
    bad[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_FALSE(decode_message_header(bad).has_value()) << bit;
  }
}

// Corrects the checksum of a header whose bytes were changed.
base::ByteVector sealed(base::ByteVector bytes) {
  const size_t end = bytes.size() - sizeof(uint32_t);
  base::store_le(bytes.data() + end, base::crc32c(base::Bytes(bytes).first(end)));
  return bytes;
}

TEST(MessageHeader, RefusesWhatNobodySends) {
  const base::ByteVector good = encode_message_header({.kind = Kind::kSlice, .count = 5});
  EXPECT_FALSE(decode_message_header(base::Bytes(good).first(good.size() - 1)).has_value());
  for (const size_t at : {0u, 4u, 7u}) {  // magic, version, zero
    base::ByteVector bad = good;
    ++bad[at];
    EXPECT_FALSE(decode_message_header(sealed(bad)).has_value()) << at;
  }
  base::ByteVector kind = good;
  kind[5] = 5;
  EXPECT_FALSE(decode_message_header(sealed(kind)).has_value());
  base::ByteVector encoding = good;
  encoding[6] = 3;
  EXPECT_FALSE(decode_message_header(sealed(encoding)).has_value());
  kind[5] = static_cast<uint8_t>(Kind::kTaken);  // with numbers
  EXPECT_FALSE(decode_message_header(sealed(kind)).has_value());
  for (const Kind empty : {Kind::kSlice, Kind::kAnswer}) {
    EXPECT_FALSE(decode_message_header(encode_message_header({.kind = empty})).has_value());
  }
}

}  // namespace
}  // namespace forebay::train
