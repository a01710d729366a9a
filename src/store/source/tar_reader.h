// Reads tar archives of any writer, in the formats of POSIX.1-2001 ("ustar" and "pax") and of GNU
// tar (its manual, "Basic Tar Format").
#pragma once

#include <optional>
#include <string>

#include "io/origin.h"
#include "store/format/tar.h"

namespace forebay::store {

using base::Result;
using base::Status;

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
// Returns "a file", "a symbolic link", …, for messages.
std::string_view tar_type_name(TarType type);

struct TarMember {
  std::string name;     // unchanged: it may be absolute, contain ".." or end in '/'
  uint64_t offset = 0;  // where the content begins
  uint64_t size = 0;    // bytes of content, which lies inside the file; 0 for links, devices, FIFOs
  TarType type = TarType::kFile;
};

// Lists the members of an archive in order. Reads headers, and contents only by read(). One thread
// calls everything.
class TarReader {
 public:
  // `file` outlives the reader. Each read has at least `read_bytes`. If reads are requests to a
  // server, a large value brings many headers in one request, with the contents between them.
  explicit TarReader(const io::ReadableFile& file, uint64_t read_bytes = kTarBlockBytes)
      : file_(file), file_bytes_(file.identity().size), read_bytes_(read_bytes) {}

  // Returns the next member, or nothing at the end of the archive. After an error every call
  // returns the same error. Errors, with their byte offset in the message:
  //   kCorrupt      a header that does not check, a lone zero block before more data, data after
  //                 the end, a member or header that the file's end cuts off, an empty file
  //   kUnsupported  a compressed archive, a sparse member
  //   kTooBig       a name, extended header or number of members above the limits
  Result<std::optional<TarMember>> next();
  // Fills `out` with the archive's bytes from `offset` on. Errors: like io::ReadableFile::read().
  Status read(uint64_t offset, base::MutableBytes out);

  // At the end, tells whether the two zero blocks were there. An archive may end without them only
  // where a header would begin, and after at least one member; GNU tar accepts such archives too.
  // Some writers of WebDataset shards leave the blocks out, and a shard that was cut off exactly
  // there looks the same. For archives made by Forebay, callers treat false as damage; for other
  // archives, they tell the user.
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

  const io::ReadableFile& file_;
  const uint64_t file_bytes_;
  const uint64_t read_bytes_;
  base::ByteVector window_;  // the bytes of the last read
  uint64_t window_at_ = 0;   // where the window begins in the file
  uint64_t position_ = 0;
  uint64_t members_ = 0;
  bool ended_ = false;
  bool has_end_mark_ = false;
  Status error_;
};

}  // namespace forebay::store
