#include "cache/members/membership_message.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/random.h"

namespace forebay::cache {
namespace {

using Kind = Message::Kind;

std::string text(base::Random& random, size_t bytes_max) {
  std::string text(1 + random.below(bytes_max), ' ');
  for (char& letter : text) letter = static_cast<char>(random.next_u32());
  return text;
}

Member member(base::Random& random) {
  return {.id = text(random, base::kMemberIdBytesMax),
          .host = text(random, 100),
          .port = static_cast<uint16_t>(1 + random.below(65535)),
          .room_bytes = random.next_u64(),
          .incarnation = random.below(base::kIncarnationMax + 1)};
}

Message message(base::Random& random, Kind kind) {
  Message message{.kind = kind, .from = member(random), .sequence = random.next_u64()};
  if (kind <= Kind::kNack) message.probe = random.next_u32();
  if (kind == Kind::kPingRequest) message.target = member(random);
  if (kind == Kind::kDigest || kind == Kind::kDigestAnswer) {
    for (uint64_t& sum : message.digest) sum = random.next_u64();
  }
  for (uint64_t updates = random.below(5); updates > 0; --updates) {
    MemberUpdate update{.member = member(random),
                        .state = static_cast<MemberState>(random.below(4))};
    if (update.state == MemberState::kSuspect) update.accuser = random.next_u32();
    if (encoded_bytes(message) + encoded_bytes(update) > base::kMemberMessageBytesMax) break;
    message.updates.push_back(update);
  }
  return message;
}

Message small_message() {
  return {.kind = Kind::kGossip, .from = {.id = "i", .host = "h", .port = 1}};
}

TEST(MembershipMessage, EveryKindComesBackTheSame) {
  for (uint64_t seed = 0; seed < 900; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(seed));
    base::Random random(seed, base::Purpose::kTest);
    const Message sent = message(random, static_cast<Kind>(seed % 9));
    const base::ByteVector bytes = encode_message(sent);
    EXPECT_EQ(bytes.size(), encoded_bytes(sent));
    const auto received = decode_message(bytes);
    ASSERT_TRUE(received.has_value()) << received.error().message();
    EXPECT_EQ(*received, sent);
  }
}

TEST(MembershipMessage, WhatIsCutOffOrChangedIsAnErrorOrAnotherMessage) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(seed));
    base::Random random(seed, base::Purpose::kTest);
    const Message sent = message(random, static_cast<Kind>(seed % 9));
    const base::ByteVector bytes = encode_message(sent);
    for (size_t length = 0; length < bytes.size(); ++length) {
      const auto received = decode_message(base::Bytes(bytes).first(length));
      EXPECT_TRUE(!received || received->updates.size() < sent.updates.size());
    }
    for (int i = 0; i < 100; ++i) {
      base::ByteVector changed = bytes;
      changed[random.below(changed.size())] ^= static_cast<uint8_t>(1 + random.below(255));
      const auto received = decode_message(changed);
      EXPECT_TRUE(!received || encode_message(*received) == changed);
    }
  }
}

TEST(MembershipMessage, LimitsHold) {
  const auto is_accepted = [](const Message& sent) {
    return decode_message(encode_message(sent)).has_value();
  };
  Message sent = small_message();
  EXPECT_TRUE(is_accepted(sent));
  sent.from.id = std::string(base::kMemberIdBytesMax, 'i');
  EXPECT_TRUE(is_accepted(sent));
  sent.from.id += 'i';
  EXPECT_FALSE(is_accepted(sent));
  sent.from.id = "";
  EXPECT_FALSE(is_accepted(sent));

  sent = small_message();
  sent.from.host = std::string(base::kHostBytesMax, 'h');
  EXPECT_TRUE(is_accepted(sent));
  sent.from.host += 'h';
  EXPECT_FALSE(is_accepted(sent));
  sent.from.host = "";
  EXPECT_FALSE(is_accepted(sent));

  sent = small_message();
  sent.from.incarnation = base::kIncarnationMax;
  EXPECT_TRUE(is_accepted(sent));
  ++sent.from.incarnation;
  EXPECT_FALSE(is_accepted(sent));

  sent = small_message();
  sent.from.port = 0;
  EXPECT_FALSE(is_accepted(sent));

  EXPECT_EQ(decode_message(base::ByteVector(base::kMemberMessageBytesMax + 1)).error().code(),
            base::Code::kTooBig);
  EXPECT_EQ(decode_message(base::ByteVector(base::kMemberMessageBytesMax)).error().code(),
            base::Code::kCorrupt);
}

TEST(MembershipMessage, UnknownVersionsKindsAndStatesAreRefused) {
  Message sent = small_message();
  sent.updates.push_back({.member = sent.from, .state = MemberState::kLeft});
  const base::ByteVector bytes = encode_message(sent);
  for (const size_t place : {size_t{0}, size_t{1}, bytes.size() - 1}) {
    base::ByteVector changed = bytes;
    changed[place] = 9;
    EXPECT_FALSE(decode_message(changed).has_value()) << place;
  }
}

}  // namespace
}  // namespace forebay::cache
