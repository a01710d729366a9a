#include "cache/members/membership_message.h"

#include "base/limits.h"

namespace forebay::cache {

using base::ByteReader;
using base::Bytes;
using base::ByteVector;
using base::ByteWriter;
using base::Code;
using Kind = Message::Kind;

// A datagram, with little-endian numbers:
//   u8 version, u8 kind, u64 sequence, member from,
//   u32 probe            in pings, ping requests and their answers
//   member target        in ping requests
//   u64 digest[64]       in digests
//   updates, until the end of the datagram
// member: u8 length, id, u8 length, host, u16 port, u64 room_bytes, u64 incarnation
// update: member, u8 state, u32 accuser (only where the state is kSuspect)
namespace {

constexpr uint8_t kVersion = 1;

bool has_probe(Kind kind) { return kind <= Kind::kNack; }
bool has_digest(Kind kind) { return kind == Kind::kDigest || kind == Kind::kDigestAnswer; }

size_t encoded_bytes(const Member& member) {
  return 1 + member.id.size() + 1 + member.host.size() + sizeof(member.port) +
         sizeof(member.room_bytes) + sizeof(member.incarnation);
}

void write_text(const std::string& text, ByteWriter* out) {
  out->number(static_cast<uint8_t>(text.size()));
  out->bytes(base::as_bytes(text));
}

void write_member(const Member& member, ByteWriter* out) {
  write_text(member.id, out);
  write_text(member.host, out);
  out->number(member.port);
  out->number(member.room_bytes);
  out->number(member.incarnation);
}

void write_update(const MemberUpdate& update, ByteWriter* out) {
  write_member(update.member, out);
  out->number(static_cast<uint8_t>(update.state));
  if (update.state == MemberState::kSuspect) out->number(update.accuser);
}

std::string read_text(ByteReader* in) {
  return std::string(base::as_text(in->bytes(in->number<uint8_t>())));
}

Member read_member(ByteReader* in) {
  Member member;
  member.id = read_text(in);
  member.host = read_text(in);
  member.port = in->number<uint16_t>();
  member.room_bytes = in->number<uint64_t>();
  member.incarnation = in->number<uint64_t>();
  return member;
}

base::Status read_update(ByteReader* in, MemberUpdate* update) {
  update->member = read_member(in);
  const auto state = in->number<uint8_t>();
  if (state > static_cast<uint8_t>(MemberState::kLeft)) {
    return base::fail(Code::kCorrupt, "membership: a member has the unknown state {}", state);
  }
  update->state = static_cast<MemberState>(state);
  if (update->state == MemberState::kSuspect) update->accuser = in->number<uint32_t>();
  if (!in->ok() || !is_valid(update->member)) {
    return base::fail(Code::kCorrupt, "membership: an update about a member is malformed");
  }
  return {};
}

}  // namespace

bool is_valid(const Member& member) {
  return !member.id.empty() && member.id.size() <= base::kMemberIdBytesMax &&
         !member.host.empty() && member.host.size() <= base::kHostBytesMax && member.port != 0 &&
         member.incarnation <= base::kIncarnationMax;
}

size_t encoded_bytes(const MemberUpdate& update) {
  return encoded_bytes(update.member) + 1 +
         (update.state == MemberState::kSuspect ? sizeof(update.accuser) : 0);
}

size_t encoded_bytes(const Message& message) {
  size_t bytes = 2 + sizeof(message.sequence) + encoded_bytes(message.from);
  if (has_probe(message.kind)) bytes += sizeof(message.probe);
  if (message.kind == Kind::kPingRequest) bytes += encoded_bytes(message.target);
  if (has_digest(message.kind)) bytes += sizeof(message.digest);
  for (const MemberUpdate& update : message.updates) bytes += encoded_bytes(update);
  return bytes;
}

ByteVector encode_message(const Message& message) {
  ByteVector bytes;
  bytes.reserve(encoded_bytes(message));
  ByteWriter out(&bytes);
  out.number(kVersion);
  out.number(static_cast<uint8_t>(message.kind));
  out.number(message.sequence);
  write_member(message.from, &out);
  if (has_probe(message.kind)) out.number(message.probe);
  if (message.kind == Kind::kPingRequest) write_member(message.target, &out);
  if (has_digest(message.kind)) {
    for (const uint64_t sum : message.digest) out.number(sum);
  }
  for (const MemberUpdate& update : message.updates) write_update(update, &out);
  FOREBAY_CHECK(bytes.size() <= base::kMemberMessageBytesMax);
  return bytes;
}

base::Result<Message> decode_message(Bytes datagram) {
  if (datagram.size() > base::kMemberMessageBytesMax) {
    return base::fail(Code::kTooBig, "membership: a datagram has {} bytes; at most {} are allowed",
                      datagram.size(), base::kMemberMessageBytesMax);
  }
  ByteReader in(datagram);
  const auto version = in.number<uint8_t>();
  const auto kind = in.number<uint8_t>();
  if (!in.ok() || version != kVersion || kind > static_cast<uint8_t>(Kind::kSync)) {
    return base::fail(Code::kCorrupt, "membership: a datagram has version {} and kind {}", version,
                      kind);
  }
  Message message;
  message.kind = static_cast<Kind>(kind);
  message.sequence = in.number<uint64_t>();
  message.from = read_member(&in);
  if (has_probe(message.kind)) message.probe = in.number<uint32_t>();
  if (message.kind == Kind::kPingRequest) message.target = read_member(&in);
  if (has_digest(message.kind)) {
    for (uint64_t& sum : message.digest) sum = in.number<uint64_t>();
  }
  if (!in.ok() || !is_valid(message.from) ||
      (message.kind == Kind::kPingRequest && !is_valid(message.target))) {
    return base::fail(Code::kCorrupt, "membership: the head of a datagram is malformed");
  }
  while (in.remaining() > 0) {
    RETURN_IF_ERROR(read_update(&in, &message.updates.emplace_back()));
  }
  return message;
}

}  // namespace forebay::cache
