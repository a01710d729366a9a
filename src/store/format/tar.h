// Writes tar archives in the form that Forebay's chunks have: POSIX.1-2001 ("ustar" and "pax").
// Grammar: docs/format.md, "chunk". The reader is store/source/tar_reader.h.
#pragma once

#include <string_view>

#include "base/bytes.h"

namespace forebay::store {

using base::Bytes;

inline constexpr uint64_t kTarBlockBytes = 512;
// The two zero blocks that end an archive.
inline constexpr uint64_t kTarEndBytes = 2 * kTarBlockBytes;

// An archive has a header, the content and padding for each member, and then the end. Its bytes
// depend only on names, sizes and contents: the mode is 0644, owner and time are 0.

// Appends a header of 512 bytes. If a name does not fit ustar's fields, a pax header of 1024 bytes
// or more comes before it. `name` has 1 to base::kTarNameBytesMax bytes, none of them zero, and
// does not end in '/'; `size` is at most base::kTarMemberBytesMax.
void append_tar_header(std::string_view name, uint64_t size, base::ByteVector* out);
// Returns how many bytes append_tar_header() appends for `name`.
uint64_t tar_header_bytes(std::string_view name);
// Returns how many zero bytes follow a content of `size` bytes.
inline uint64_t tar_padding_bytes(uint64_t size) {
  return (kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes;
}
inline void append_tar_padding(uint64_t size, base::ByteVector* out) {
  out->resize(out->size() + tar_padding_bytes(size));
}
// The bytes of header, content and padding together.
inline uint64_t tar_member_bytes(std::string_view name, uint64_t size) {
  return tar_header_bytes(name) + size + tar_padding_bytes(size);
}
inline void append_tar_end(base::ByteVector* out) { out->resize(out->size() + kTarEndBytes); }

}  // namespace forebay::store
