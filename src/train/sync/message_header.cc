#include "train/sync/message_header.h"

#include "base/checksum.h"

namespace forebay::train {

using base::ByteReader;
using base::ByteVector;
using base::ByteWriter;
using base::Code;

// A header is, in little-endian numbers: u32 magic, u8 version, u8 kind, u8 encoding, u8 zero, u32
// sender, u64 number, u64 taken, u64 step, u64 steps, u64 begin, u32 count, u32 payload_crc32c, u32
// CRC32C of all bytes before it.
namespace {

constexpr uint32_t kMagic = 0x59534246;  // "FBSY"
constexpr uint8_t kVersion = 3;

}  // namespace

ByteVector encode_message_header(const MessageHeader& header) {
  ByteVector out;
  out.reserve(kMessageHeaderBytes);
  ByteWriter to(&out);
  to.number(kMagic);
  to.number(kVersion);
  to.number(static_cast<uint8_t>(header.kind));
  to.number(static_cast<uint8_t>(header.encoding));
  to.number(uint8_t{0});
  to.number(header.sender);
  to.number(header.number);
  to.number(header.taken);
  to.number(header.step);
  to.number(header.steps);
  to.number(header.begin);
  to.number(header.count);
  to.number(header.payload_crc32c);
  to.number(base::crc32c(out));
  FOREBAY_CHECK(out.size() == kMessageHeaderBytes);
  return out;
}

Result<MessageHeader> decode_message_header(base::Bytes bytes) {
  const auto damaged = [](const char* what) {
    return base::fail(Code::kCorrupt, "sync: the header of a message {}", what);
  };
  if (bytes.size() != kMessageHeaderBytes) return damaged("has the wrong length");
  const base::Bytes checked = bytes.first(kMessageHeaderBytes - sizeof(uint32_t));
  if (base::load_le<uint32_t>(bytes.data() + checked.size()) != base::crc32c(checked)) {
    return damaged("does not match its checksum");
  }
  ByteReader in(bytes);
  if (in.number<uint32_t>() != kMagic) return damaged("was not written by Forebay");
  if (in.number<uint8_t>() != kVersion) return damaged("is from another version of Forebay");
  MessageHeader header;
  const auto kind = in.number<uint8_t>();
  const auto encoding = in.number<uint8_t>();
  if (kind > static_cast<uint8_t>(MessageHeader::Kind::kEnd) ||
      encoding > static_cast<uint8_t>(kLastEncoding) || in.number<uint8_t>() != 0) {
    return damaged("has an unknown kind or encoding");
  }
  header.kind = static_cast<MessageHeader::Kind>(kind);
  header.encoding = static_cast<Encoding>(encoding);
  header.sender = in.number<uint32_t>();
  header.number = in.number<uint64_t>();
  header.taken = in.number<uint64_t>();
  header.step = in.number<uint64_t>();
  header.steps = in.number<uint64_t>();
  header.begin = in.number<uint64_t>();
  header.count = in.number<uint32_t>();
  header.payload_crc32c = in.number<uint32_t>();
  if (header.has_payload() != (header.count != 0)) {
    return damaged("announces numbers that messages of its kind do not have, or none");
  }
  return header;
}

}  // namespace forebay::train
