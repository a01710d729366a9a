// What the machines of a job tell each other about who is a member, and its bytes in a datagram.
// Whoever sends and receives the datagrams adds the authentication.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "cache/members/members.h"

namespace forebay::cache {

// Where two messages say different states at the same incarnation, the one that stands later in
// this list holds.
enum class MemberState : uint8_t { kAlive, kSuspect, kDead, kLeft };

inline bool is_gone(MemberState state) { return state >= MemberState::kDead; }

struct MemberUpdate {
  Member member = {};
  MemberState state = MemberState::kAlive;
  // The short name of the member that got no answer, where the state is kSuspect; otherwise 0.
  uint32_t accuser = 0;
  bool operator==(const MemberUpdate&) const = default;
};

// Members are compared in buckets: each has the sum of what is known of the members in it.
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
    kDigestAnswer,  // the same, from a receiver of kDigest
    kSync,          // answers both with all members of the buckets that differ
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

// Bytes that the message takes, and that an update adds to it.
size_t encoded_bytes(const Message& message);
size_t encoded_bytes(const MemberUpdate& update);

// The message must take at most kMemberMessageBytesMax bytes.
base::ByteVector encode_message(const Message& message);
// Errors: kCorrupt, kTooBig.
base::Result<Message> decode_message(base::Bytes datagram);

}  // namespace forebay::cache
