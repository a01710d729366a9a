// Tar archives: the canonical writer of Forebay's chunks, and a reader for what others wrote.
// POSIX.1-2001 ("ustar" and "pax") and GNU tar's manual, "Basic Tar Format".
// docs/format.md, "chunk".
#pragma once

#include <optional>
#include <string>

#include "io/file_system.h"

namespace forebay::store {

using base::Bytes;
using base::Result;
using base::Status;

inline constexpr uint64_t kTarBlockBytes = 512;
// The two zero blocks that end an archive.
inline constexpr uint64_t kTarEndBytes = 2 * kTarBlockBytes;
// The largest member that append_tar_header() describes (11 octal digits).
inline constexpr uint64_t kTarMemberBytesMax = (1ull << 33) - 1;

// Writing: header, content, padding; for each member; then the end. The bytes depend on names,
// sizes and contents alone: mode 0644, owner 0, time 0.

// One 512-byte header; for a name that does not fit ustar's fields a pax header (1024 bytes or
// more) before it. `name` has 1 to base::kTarNameBytesMax bytes, none of them zero, and does not
// end in '/'; `size` is at most kTarMemberBytesMax.
void append_tar_header(std::string_view name, uint64_t size, base::ByteVector* out);
// The bytes of what append_tar_header() appends for `name`.
uint64_t tar_header_bytes(std::string_view name);
// Zero bytes that follow a content of `size` bytes.
inline uint64_t tar_padding_bytes(uint64_t size) {
  return (kTarBlockBytes - size % kTarBlockBytes) % kTarBlockBytes;
}
inline void append_tar_padding(uint64_t size, base::ByteVector* out) {
  out->resize(out->size() + tar_padding_bytes(size));
}
// Header, content and padding together.
inline uint64_t tar_member_bytes(std::string_view name, uint64_t size) {
  return tar_header_bytes(name) + size + tar_padding_bytes(size);
}
inline void append_tar_end(base::ByteVector* out) { out->resize(out->size() + kTarEndBytes); }

enum class TarType : uint8_t {
  kFile,
  kHardLink,
  kSymbolicLink,
  kCharacterDevice,
  kBlockDevice,
  kDirectory,
  kFifo,
  kOther,  // a volume label, a multi-volume piece, a vendor's own
};
// "a file", "a symbolic link", …: for messages.
std::string_view tar_type_name(TarType type);

struct TarMember {
  std::string name;     // as stored: it may be absolute, hold ".." or end in '/'
  uint64_t offset = 0;  // of the content's first byte
  uint64_t size = 0;    // of the content, which lies inside the file; 0 for links, devices, FIFOs
  TarType type = TarType::kFile;
};

// Lists the members of an archive in order; reads headers only. One thread calls everything.
class TarReader {
 public:
  // `file` outlives the reader.
  explicit TarReader(const io::RandomFile& file) : file_(file) {}

  // The next member, or nothing at the end of the archive. After an error every call gives it
  // again. Errors, with the byte at which they lie:
  //   kCorrupt      a header that does not check, a lone zero block before more data, data after
  //                 the end, a member or header that the file's end cuts off, an empty file
  //   kUnsupported  a compressed archive, a sparse member
  //   kTooBig       a name, extended header or number of members above the limits
  Result<std::optional<TarMember>> next();

  // After the end: whether the two zero blocks were there. An archive may end without them, as
  // for GNU tar, only where a header would begin and after at least one member: some writers of
  // WebDataset shards leave them out, and a shard cut off exactly there looks the same. Who reads
  // archives that Forebay wrote treats false as damage; who reads those of others tells the user.
  bool has_end_mark() const { return has_end_mark_; }

 private:
  struct Extended;
  struct Header;
  Result<std::optional<TarMember>> read_next();
  Result<std::optional<Header>> read_header();
  Result<std::optional<Header>> read_end();
  Status read_extended(const Header& header, Extended* extended);
  Result<TarMember> make_member(const Header& header, Extended extended);
  Result<base::ByteVector> read_payload(const Header& header);

  const io::RandomFile& file_;
  std::optional<uint64_t> file_bytes_;
  uint64_t position_ = 0;
  uint64_t members_ = 0;
  bool ended_ = false;
  bool has_end_mark_ = false;
  Status error_;
};

}  // namespace forebay::store
