#include "store/source/tar_reader.h"

#include <algorithm>
#include <array>

#include "base/limits.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

struct TarReader::Header {
  uint64_t at = 0;  // where the header lies in the file
  std::string name;
  uint64_t size = 0;  // size of the content after the header
  char type = '0';
};

// The values of the extended headers before a member, which override the member's own header.
struct TarReader::Extended {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
  bool sparse = false;
};

namespace {

using Block = std::array<uint8_t, kTarBlockBytes>;

bool is_zero(Bytes data) {
  return std::all_of(data.begin(), data.end(), [](uint8_t byte) { return byte == 0; });
}

std::string_view text_field(Bytes block, size_t at, size_t length) {
  const std::string_view field = base::as_text(block.subspan(at, length));
  return field.substr(0, field.find('\0'));
}

// Reads octal digits after optional blanks, up to a blank or a zero byte. An empty field is 0.
std::optional<uint64_t> parse_octal(Bytes field) {
  size_t i = 0;
  while (i < field.size() && field[i] == ' ') ++i;
  uint64_t value = 0;
  for (; i < field.size() && field[i] != ' ' && field[i] != 0; ++i) {
    if (field[i] < '0' || field[i] > '7' || value >> 60 != 0) return std::nullopt;
    value = value * 8 + (field[i] - '0');
  }
  return value;
}

// Reads octal digits, or a big-endian binary number if the first bit is set (GNU tar writes binary
// numbers for 8 GiB and more).
std::optional<uint64_t> parse_size(Bytes field) {
  if ((field[0] & 0x80) == 0) return parse_octal(field);
  if (field[0] != 0x80) return std::nullopt;  // negative, or above 2^63
  uint64_t value = 0;
  for (size_t i = 1; i < field.size(); ++i) {
    if (value >> 55 != 0) return std::nullopt;
    value = value << 8 | field[i];
  }
  return value;
}

// Some old writers summed signed bytes, so every reader accepts both sums.
bool checksum_matches(Bytes block) {
  const auto stored = parse_octal(block.subspan(148, 8));
  int64_t sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const uint8_t byte = i >= 148 && i < 156 ? ' ' : block[i];
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  return stored &&
         (static_cast<int64_t>(*stored) == sum || static_cast<int64_t>(*stored) == signed_sum);
}

std::string header_name(Bytes block) {
  std::string name(text_field(block, 0, 100));
  // GNU tar's own format keeps times where ustar has the prefix.
  const bool ustar = base::as_text(block.subspan(257, 6)) == std::string_view("ustar\0", 6);
  const std::string_view prefix = text_field(block, 345, 155);
  return ustar && !prefix.empty() ? fmt::format("{}/{}", prefix, name) : name;
}

// Returns the program that unpacks a compressed file with these first bytes; empty for other files.
std::string_view compressor(Bytes start) {
  const auto begins = [&](std::string_view magic) {
    return base::as_text(start).starts_with(magic);
  };
  if (begins("\x1f\x8b")) return "gzip";
  if (begins("BZh")) return "bzip2";
  if (begins("\x28\xb5\x2f\xfd")) return "zstd";
  if (begins(std::string_view("\xfd"
                              "7zXZ\0",
                              6)))
    return "xz";
  return {};
}

bool holds_data(char type) { return type < '1' || type > '6'; }

TarType member_type(char type, std::string_view name) {
  switch (type) {
    case '0':
    case '\0':
    case '7':  // a "contiguous" file, which all readers treat as an ordinary file
      // Before ustar a directory was a file whose name ends in a slash.
      return name.ends_with('/') ? TarType::kDirectory : TarType::kFile;
    case '1':
      return TarType::kHardLink;
    case '2':
      return TarType::kSymbolicLink;
    case '3':
      return TarType::kCharacterDevice;
    case '4':
      return TarType::kBlockDevice;
    case '5':
      return TarType::kDirectory;
    case '6':
      return TarType::kFifo;
    default:
      return TarType::kOther;
  }
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

struct PaxRecord {
  std::string_view key;
  std::string_view value;
};

// Takes a record like "27 path=some/long/name\n" from the front of `*text`; nothing if it is
// malformed.
std::optional<PaxRecord> take_pax_record(std::string_view* text) {
  const size_t blank = text->find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto length = parse_decimal(text->substr(0, blank));
  if (!length || *length < blank + 3 || *length > text->size()) return std::nullopt;
  const std::string_view record = text->substr(blank + 1, *length - blank - 1);
  const size_t equals = record.find('=');
  if (equals == std::string_view::npos || record.back() != '\n') return std::nullopt;
  text->remove_prefix(*length);
  return PaxRecord{record.substr(0, equals), record.substr(equals + 1, record.size() - equals - 2)};
}

}  // namespace

Result<std::optional<TarMember>> TarReader::next() {
  RETURN_IF_ERROR(error_);
  auto member = read_next();
  if (!member) error_ = member.error();
  return member;
}

Status TarReader::read(uint64_t offset, base::MutableBytes out) {
  if (out.size() >= read_bytes_) return file_.read(offset, out);
  const bool is_here =
      offset >= window_at_ && base::in_bounds(offset - window_at_, out.size(), window_.size());
  if (!is_here) {
    window_.resize(std::max<uint64_t>(
        out.size(), std::min(read_bytes_, file_bytes_ - std::min(offset, file_bytes_))));
    window_at_ = offset;
    const Status status = file_.read(offset, window_);
    if (!status.ok()) window_.clear();
    RETURN_IF_ERROR(status);
  }
  std::copy_n(window_.begin() + static_cast<ptrdiff_t>(offset - window_at_), out.size(),
              out.begin());
  return {};
}

Result<std::optional<TarMember>> TarReader::read_next() {
  if (ended_) return std::nullopt;
  Extended extended;
  bool is_extended = false;
  for (;;) {
    ASSIGN_OR_RETURN(const auto header, read_header());
    if (!header) {
      if (!is_extended) return std::nullopt;
      return fail(Code::kCorrupt,
                  "{}: the archive ends at byte {} after an extended header whose member is "
                  "missing: it was cut off; fetch it again",
                  file_.path(), position_);
    }
    if (std::string_view("xgLK").find(header->type) == std::string_view::npos) {
      ASSIGN_OR_RETURN(TarMember member, make_member(*header, std::move(extended)));
      return member;
    }
    RETURN_IF_ERROR(read_extended(*header, &extended));
    is_extended = header->type != 'g';
  }
}

// Returns nothing at the end of the archive.
Result<std::optional<TarReader::Header>> TarReader::read_header() {
  const uint64_t left = file_bytes_ - position_;
  if (left == 0 && members_ > 0) {
    ended_ = true;
    return std::nullopt;
  }
  Block block{};
  const auto start = base::MutableBytes(block).first(std::min(left, kTarBlockBytes));
  RETURN_IF_ERROR(read(position_, start));
  if (const auto program = compressor(start); position_ == 0 && !program.empty()) {
    return fail(Code::kUnsupported,
                "{}: compressed with {}; Forebay reads plain tar files: unpack it with `{} -d` "
                "(images do not get smaller by it)",
                file_.path(), program, program);
  }
  if (left < kTarBlockBytes) {
    return fail(Code::kCorrupt,
                "{}: truncated: {} bytes at byte {} where a tar header of 512 was expected; fetch "
                "it again",
                file_.path(), left, position_);
  }
  if (is_zero(block)) return read_end();
  if (!checksum_matches(block)) {
    return fail(Code::kCorrupt,
                "{}: damaged tar header at byte {}: its checksum does not match; fetch the "
                "archive again (nothing after it can be found)",
                file_.path(), position_);
  }
  Header header{.at = position_, .name = header_name(block), .type = static_cast<char>(block[156])};
  const auto size = parse_size(Bytes(block).subspan(124, 12));
  if (!size && holds_data(header.type)) {
    return fail(Code::kCorrupt, "{}: the tar header at byte {} has no valid size", file_.path(),
                position_);
  }
  header.size = holds_data(header.type) ? *size : 0;
  if (++members_ > base::kSourceEntriesMax) {
    return fail(Code::kTooBig, "{}: more than {} tar members", file_.path(),
                base::kSourceEntriesMax);
  }
  position_ += kTarBlockBytes;
  return header;
}

// Called at a zero block. A lone zero block at the end of the file is accepted, as in GNU tar;
// before other data it means that a header was lost. Data after the end mark, however far, would be
// a second archive. Ignoring it would silently lose that archive's samples.
Result<std::optional<TarReader::Header>> TarReader::read_end() {
  constexpr uint64_t kLookBytes = 1 << 20;
  ByteVector rest;
  for (uint64_t at = position_; at < file_bytes_; at += rest.size()) {
    rest.resize(std::min(file_bytes_ - at, kLookBytes));
    RETURN_IF_ERROR(read(at, rest));
    if (is_zero(rest)) continue;
    const auto lost =
        std::find_if(rest.begin(), rest.end(), [](uint8_t byte) { return byte != 0; });
    return fail(Code::kCorrupt,
                "{}: data at byte {} after zero blocks at byte {}: a header was lost, or two "
                "archives were concatenated (split them)",
                file_.path(), at + static_cast<uint64_t>(lost - rest.begin()), position_);
  }
  ended_ = true;
  has_end_mark_ = file_bytes_ - position_ >= kTarEndBytes;
  return std::nullopt;
}

Status TarReader::read_extended(const Header& header, Extended* extended) {
  ASSIGN_OR_RETURN(const ByteVector payload, read_payload(header));
  std::string_view text = base::as_text(payload);
  if (header.type == 'L') extended->name = std::string(text.substr(0, text.find('\0')));
  if (header.type != 'x') return {};
  while (!text.empty()) {
    const auto record = take_pax_record(&text);
    if (!record) {
      return fail(Code::kCorrupt, "{}: the pax header at byte {} is malformed", file_.path(),
                  header.at);
    }
    if (record->key == "path") extended->name = std::string(record->value);
    if (record->key == "size") {
      extended->size = parse_decimal(record->value);
      if (!extended->size) {
        return fail(Code::kCorrupt, "{}: the pax header at byte {} has an invalid size \"{}\"",
                    file_.path(), header.at, record->value.substr(0, 32));
      }
    }
    if (record->key.starts_with("GNU.sparse.")) extended->sparse = true;
  }
  return {};
}

Result<ByteVector> TarReader::read_payload(const Header& header) {
  if (header.size > base::kTarExtendedBytesMax) {
    return fail(Code::kTooBig, "{}: the extended header at byte {} has {} bytes, more than {}",
                file_.path(), header.at, header.size, base::kTarExtendedBytesMax);
  }
  const uint64_t padded = header.size + tar_padding_bytes(header.size);
  if (!base::in_bounds(position_, padded, file_bytes_)) {
    return fail(Code::kCorrupt,
                "{}: truncated inside the extended header at byte {}; fetch it again", file_.path(),
                header.at);
  }
  ByteVector payload(header.size);
  RETURN_IF_ERROR(read(position_, payload));
  position_ += padded;
  return payload;
}

Result<TarMember> TarReader::make_member(const Header& header, Extended extended) {
  TarMember member;
  member.name = std::move(extended.name).value_or(header.name);
  if (header.type == 'S' || extended.sparse) {
    return fail(Code::kUnsupported,
                "{}: member {} at byte {} is sparse; make the archive without --sparse",
                file_.path(), member.name, header.at);
  }
  if (member.name.size() > base::kTarNameBytesMax) {
    return fail(Code::kTooBig, "{}: the member at byte {} has a name of {} bytes, more than {}",
                file_.path(), header.at, member.name.size(), base::kTarNameBytesMax);
  }
  if (member.name.empty() || member.name.find('\0') != std::string::npos) {
    return fail(Code::kCorrupt, "{}: the member at byte {} has no valid name", file_.path(),
                header.at);
  }
  member.type = member_type(header.type, member.name);
  member.offset = position_;
  member.size = extended.size && holds_data(header.type) ? *extended.size : header.size;
  const uint64_t padded = member.size + tar_padding_bytes(member.size);
  if (!base::in_bounds(position_, padded, file_bytes_)) {
    return fail(Code::kCorrupt,
                "{}: truncated: member {} at byte {} has {} bytes, the file ends after {}; fetch "
                "it again",
                file_.path(), member.name, header.at, member.size, file_bytes_ - position_);
  }
  position_ += padded;
  return member;
}

std::string_view tar_type_name(TarType type) {
  switch (type) {
    case TarType::kFile:
      return "a file";
    case TarType::kHardLink:
      return "a hard link";
    case TarType::kSymbolicLink:
      return "a symbolic link";
    case TarType::kCharacterDevice:
      return "a character device";
    case TarType::kBlockDevice:
      return "a block device";
    case TarType::kDirectory:
      return "a directory";
    case TarType::kFifo:
      return "a FIFO";
    case TarType::kOther:
      break;
  }
  return "a special member";
}

}  // namespace forebay::store
