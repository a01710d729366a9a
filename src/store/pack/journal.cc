#include "store/pack/journal.h"

#include <algorithm>

#include "base/limits.h"
#include "store/pack/json_guard.h"

namespace forebay::store {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

constexpr size_t kCheckDigits = 8;

std::string encode_line(const json& value) {
  const std::string text = dump_json(value);
  return fmt::format("{:08x} {}\n", base::crc32c(base::as_bytes(text)), text);
}

// Gives the object of a line without its end, or nothing where the checksum does not match.
std::optional<json> decode_line(std::string_view line) {
  if (line.size() <= kCheckDigits + 1 || line[kCheckDigits] != ' ') return std::nullopt;
  const std::string_view text = line.substr(kCheckDigits + 1);
  if (fmt::format("{:08x}", base::crc32c(base::as_bytes(text))) != line.substr(0, kCheckDigits)) {
    return std::nullopt;
  }
  json value = json::parse(text, nullptr, false);
  if (!value.is_object()) return std::nullopt;
  return value;
}

json encode_record(const ChunkRecord& record) {
  return {{"chunk", record.number},
          {"id", base::to_hex(record.id)},
          {"bytes", record.bytes},
          {"index_bytes", record.index_bytes},
          {"stats", to_json(record.stats)}};
}

Result<ChunkRecord> decode_record(const json& value) {
  std::string id;
  ASSIGN_OR_RETURN(ChunkRecord record, guarded<ChunkRecord>([&] {
                     ChunkRecord out;
                     out.number = count_of(value.at("chunk"));
                     out.bytes = count_of(value.at("bytes"));
                     out.index_bytes = count_of(value.at("index_bytes"));
                     value.at("id").get_to(id);
                     return out;
                   }));
  if (record.bytes > base::kChunkBytesMax ||
      record.index_bytes > std::min(record.bytes, base::kChunkIndexBytesMax)) {
    return fail(Code::kCorrupt, "a chunk of {} bytes with an index of {}", record.bytes,
                record.index_bytes);
  }
  ASSIGN_OR_RETURN(record.id, base::sha256_from_hex(id));
  ASSIGN_OR_RETURN(record.stats, stats_from_json(value.value("stats", json())));
  return record;
}

}  // namespace

std::string journal_path(const std::string& dataset) { return io::join_path(dataset, "journal"); }
std::string listing_path(const std::string& dataset) { return io::join_path(dataset, "listing"); }

Result<Journal::Content> Journal::read(const io::Origin& origin, const std::string& dataset) {
  const std::string path = journal_path(dataset);
  ASSIGN_OR_RETURN(const auto data, io::read_file(origin, path, base::kJournalBytesMax));
  const std::string_view text = base::as_text(data);
  Content content;
  bool have_identity = false;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos;) {
    const auto value = decode_line(text.substr(begin, end - begin));
    if (!value) break;
    if (!have_identity) {
      if (value->value("forebay_journal", json()) != json(0)) {
        return fail(Code::kUnsupported, "{}: of another version of Forebay", path);
      }
      auto identity = identity_from_json(value->value("identity", json()));
      if (!identity) return tl::unexpected(identity.error().at(path));
      content.identity = *identity;
      have_identity = true;
    } else {
      auto record = decode_record(*value);
      if (!record) return tl::unexpected(record.error().at(path));
      content.records.push_back(std::move(*record));
    }
    begin = end + 1;
    content.good_bytes = begin;
  }
  // The first line was written atomically, so this is damage and not an end that was torn off.
  if (!have_identity) {
    return fail(Code::kCorrupt, "{}: its first line is damaged; remove the folder {} and pack anew",
                path, dataset);
  }
  return content;
}

Status Journal::begin(io::FileSystem& fs, const std::string& dataset, Bytes listing,
                      const PackIdentity& identity) {
  RETURN_IF_ERROR(io::write_file_atomically(fs, listing_path(dataset), listing));
  const std::string line = encode_line({{"forebay_journal", 0}, {"identity", to_json(identity)}});
  return io::write_file_atomically(fs, journal_path(dataset), base::as_bytes(line));
}

Result<std::unique_ptr<Journal>> Journal::open(io::FileSystem& fs, const std::string& dataset,
                                               uint64_t good_bytes) {
  ASSIGN_OR_RETURN(auto file, fs.append_to(journal_path(dataset), good_bytes));
  return std::unique_ptr<Journal>(new Journal(std::move(file)));
}

Status Journal::remove(io::FileSystem& fs, const std::string& dataset) {
  for (const std::string& path : {journal_path(dataset), listing_path(dataset)}) {
    const Status status = fs.remove(path);
    if (!status.ok() && status.code() != Code::kNotFound) return status;
  }
  return fs.sync_dir(dataset);
}

Status Journal::append(const ChunkRecord& record) {
  const std::string line = encode_line(encode_record(record));
  base::MutexLock lock(mutex_);
  if (error_.ok()) error_ = file_->append(base::as_bytes(line));
  if (error_.ok()) error_ = file_->sync();
  return error_;
}

}  // namespace forebay::store
