#include "cache/held/extent_list.h"

#include "base/limits.h"

namespace forebay::cache {

namespace {

// Bytes in the list: of an entry without its checksums; and the checksums, as one part in this many
// of the held bytes.
constexpr uint64_t kEntryBytes = 64;
constexpr uint64_t kChecksShare = 1024;

void encode(const ExtentList::Entry& entry, base::ByteVector* out) {
  const size_t begin = out->size();
  base::ByteWriter writer(out);
  writer.bytes(entry.file);
  writer.number(entry.offset);
  writer.number(entry.length);
  for (const uint32_t crc32c : entry.crc32cs) writer.number(crc32c);
  writer.number(base::crc32c(base::Bytes(*out).subspan(begin)));
}

std::optional<ExtentList::Entry> decode(base::Bytes list, base::ByteReader& reader) {
  const size_t begin = reader.position();
  ExtentList::Entry entry;
  const base::Bytes file = reader.bytes(entry.file.size());
  std::copy(file.begin(), file.end(), entry.file.begin());
  entry.offset = reader.number<uint64_t>();
  entry.length = reader.number<uint32_t>();
  if (entry.offset > INT64_MAX || entry.length > kExtentBytes - entry.offset % kExtentBytes)
    return std::nullopt;
  entry.crc32cs.resize(checks_of(entry.offset, entry.length));
  for (uint32_t& crc32c : entry.crc32cs) crc32c = reader.number<uint32_t>();
  const base::Bytes checked = list.subspan(begin, reader.position() - begin);
  const auto check = reader.number<uint32_t>();
  if (!reader.ok() || check != base::crc32c(checked)) return std::nullopt;
  return entry;
}

}  // namespace

std::vector<uint32_t> checksums_of(uint64_t offset, base::Bytes bytes) {
  std::vector<uint32_t> crc32cs;
  while (!bytes.empty()) {
    const size_t step = std::min<size_t>(bytes.size(), kCheckBytes - offset % kCheckBytes);
    crc32cs.push_back(base::crc32c(bytes.first(step)));
    offset += step;
    bytes = bytes.subspan(step);
  }
  return crc32cs;
}

// Counts the first and the last block as whole ones, and the entries in the list.
uint64_t room_for(uint64_t length) {
  const uint64_t extents = length / kExtentBytes + 2;
  return length + length / kChecksShare + 2 * kCheckBytes + extents * kEntryBytes;
}

std::vector<ExtentList::Entry> ExtentList::read(const std::string& path) {
  std::vector<Entry> entries;
  const auto found = io::posix_file_system().read_whole(path, base::kExtentListBytesMax);
  if (!found) return entries;
  base::ByteReader reader(*found);
  while (auto entry = decode(*found, reader)) entries.push_back(std::move(*entry));
  return entries;
}

Result<std::unique_ptr<ExtentList>> ExtentList::begin(const std::string& path,
                                                      std::span<const Entry> entries) {
  base::ByteVector bytes;
  for (const Entry& entry : entries) encode(entry, &bytes);
  io::FileSystem& disk = io::posix_file_system();
  RETURN_IF_ERROR(disk.put(path, bytes, {.durable = false}));
  ASSIGN_OR_RETURN(auto file, disk.append_to(path));
  return std::unique_ptr<ExtentList>(new ExtentList(std::move(file), bytes.size()));
}

Status ExtentList::add(const Entry& entry) {
  base::ByteVector bytes;
  encode(entry, &bytes);
  bytes_ += bytes.size();
  return file_->append(bytes);
}

}  // namespace forebay::cache
