// The messages by which the machines of a job agree on who is a member, and their encoding in
// datagrams. Authentication is not part of the message: the datagrams' sockets add it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "cache/members/members.h"

namespace forebay::cache {

// If two messages give different states at the same incarnation, the state that comes later in this
// list wins.
enum class MemberState : uint8_t { kAlive, kSuspect, kDead, kLeft };

inline bool is_gone(MemberState state) { return state >= MemberState::kDead; }

struct MemberUpdate {
  Member member = {};
  MemberState state = MemberState::kAlive;
  // The short name of the member that got no answer, if the state is kSuspect; otherwise 0.
  uint32_t accuser = 0;
  bool operator==(const MemberUpdate&) const = default;
};

// Member lists are compared in buckets, each of which combines the hashes of its members
// (MemberTable::digest()).
inline constexpr size_t kMemberBuckets = 64;
using MemberDigest = std::array<uint64_t, kMemberBuckets>;

struct Message {
  enum class Kind : uint8_t {
    kPing,
    kPingRequest,   // asks the receiver to ping `target` for the sender
    kAck,           // answers a ping
    kRelayedAck,    // answers a ping request: the target has answered
    kNack,          // answers a ping request: the target has not answered yet
    kGossip,        // only brings updates
    kDigest,        // asks for updates where the receiver's digest differs
    kDigestAnswer,  // the same as kDigest, sent by a receiver of kDigest
    kSync,          // answers kDigest and kDigestAnswer with all members of the buckets that differ
  };
  Kind kind = Kind::kGossip;
  Member from = {};
  uint64_t sequence = 0;  // grows with each message of a process
  uint32_t probe = 0;     // which ping or ping request is meant; 0 in messages of other kinds
  Member target = {};     // only in kPingRequest
  MemberDigest digest{};  // only in kDigest and kDigestAnswer
  std::vector<MemberUpdate> updates = {};
  bool operator==(const Message&) const = default;
};

// Whether the lengths, the port and the incarnation are within the limits.
bool is_valid(const Member& member);

// The encoded size of a message, and what an update adds to it.
size_t encoded_bytes(const Message& message);
size_t encoded_bytes(const MemberUpdate& update);

// The message must take at most kMemberMessageBytesMax bytes.
base::ByteVector encode_message(const Message& message);
// Errors: kCorrupt, kTooBig.
base::Result<Message> decode_message(base::Bytes datagram);

}  // namespace forebay::cache
