// The header of a message between two training processes, and its bytes. A message is a header,
// then `count` numbers in the header's encoding.
#pragma once

#include "base/bytes.h"
#include "train/sync/encoding.h"

namespace forebay::train {

using base::Result;
using base::Status;

struct MessageHeader {
  enum class Kind : uint8_t {
    kSlice,   // values for a range of the model
    kAnswer,  // values for a range, in answer to a slice
    kTaken,   // only confirms messages, by `taken`; no numbers follow
    kBye,     // the sender has no more slices, but still sends answers; no numbers follow
    kEnd,     // the sender's last message; no numbers follow
  };
  Kind kind = Kind::kSlice;
  uint32_t sender = 0;  // its rank
  uint64_t number = 0;  // counts the slices and answers from this sender to this receiver
  uint64_t taken = 0;   // the number of the last slice or answer that the sender has received
  uint64_t step = 0;    // how many steps the sender has made; an answer may repeat the question's
  uint64_t steps = 0;   // from how many of the sender's steps the values come
  uint64_t begin = 0;   // the first number of the range
  uint32_t count = 0;   // how many numbers the range has
  Encoding encoding = Encoding::kFloat32;
  uint32_t payload_crc32c = 0;
  bool has_payload() const { return kind == Kind::kSlice || kind == Kind::kAnswer; }
  size_t payload_bytes() const { return encoded_bytes(encoding, count); }
  bool operator==(const MessageHeader&) const = default;
};

// The size of every header.
inline constexpr size_t kMessageHeaderBytes = 64;

base::ByteVector encode_message_header(const MessageHeader& header);
// Errors: kCorrupt for bytes that encode_message_header() cannot have written.
Result<MessageHeader> decode_message_header(base::Bytes bytes);

}  // namespace forebay::train
