#include "cache/held/extent_list.h"

#include "base/limits.h"

namespace forebay::cache {

namespace {

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
