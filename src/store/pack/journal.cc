#include "store/pack/journal.h"

#include <algorithm>
#include <new>

#include "base/limits.h"
#include "io/share_work.h"
#include "store/pack/json_guard.h"

namespace forebay::store {

using base::Code;
using base::fail;
using nlohmann::json;

namespace {

constexpr size_t kCheckDigits = 8;
constexpr std::string_view kIdentityName = "identity";
constexpr std::string_view kListingSuffix = ".listing";
// A file of this size gets no more records, because each new record writes its whole file again.
constexpr size_t kFileBytes = 64u << 10;
// How many files are read at once, because each remote read takes a while.
constexpr size_t kReadsAtOnce = 16;

std::string encode_line(const json& value) {
  const std::string text = dump_json(value);
  return fmt::format("{:08x} {}\n", base::crc32c(base::as_bytes(text)), text);
}

// Returns the object of a line (without its line break), or nothing if the checksum does not match.
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

std::string identity_path(const std::string& dataset) {
  return io::join_path(journal_path(dataset), kIdentityName);
}

// Returns the number of a file of records, and 0 for any other file.
uint64_t number_of(std::string_view name) {
  constexpr size_t kDigits = 18;
  if (name.empty() || name.size() > kDigits || name.front() == '0') return 0;
  uint64_t number = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return 0;
    number = number * 10 + static_cast<uint64_t>(digit - '0');
  }
  return number;
}

// Returns the objects of a file's lines, up to the first damaged line.
std::vector<json> decode_lines(std::string_view text) {
  std::vector<json> values;
  for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string_view::npos;) {
    auto value = decode_line(text.substr(begin, end - begin));
    if (!value) break;
    values.push_back(std::move(*value));
    begin = end + 1;
  }
  return values;
}

Result<PackIdentity> read_identity(const io::Origin& origin, const std::string& dataset) {
  const std::string path = identity_path(dataset);
  ASSIGN_OR_RETURN(const auto data, origin.read_whole(path, base::kJournalFileBytesMax));
  const std::vector<json> values = decode_lines(base::as_text(data));
  if (values.empty()) {
    return fail(Code::kCorrupt, "{}: damaged; remove the folder {} and pack anew", path, dataset);
  }
  if (values[0].value("forebay_journal", json()) != json(0)) {
    return fail(Code::kUnsupported, "{}: written by another version of Forebay", path);
  }
  auto identity = identity_from_json(values[0].value("identity", json()));
  if (!identity) return tl::unexpected(identity.error().at(path));
  return identity;
}

// Returns no records if the file is missing: another run of the same pack may have ended and
// removed it since it was listed.
Result<std::vector<ChunkRecord>> read_records(const io::Origin& origin, const std::string& path) {
  const auto data = origin.read_whole(path, base::kJournalFileBytesMax);
  std::vector<ChunkRecord> records;
  if (!data && data.error().code() == Code::kNotFound) return records;
  RETURN_IF_ERROR(data);
  for (const json& value : decode_lines(base::as_text(*data))) {
    auto record = decode_record(value);
    if (!record) return tl::unexpected(record.error().at(path));
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace

std::string journal_path(const std::string& dataset) { return io::join_path(dataset, "journal"); }

std::string listing_path(const std::string& dataset, const PackIdentity& identity) {
  return io::join_path(journal_path(dataset),
                       base::to_hex(identity.listing) + std::string(kListingSuffix));
}

Result<bool> Journal::exists(const io::Origin& origin, const std::string& dataset) {
  const std::string folder = journal_path(dataset);
  const auto info = origin.stat(folder);
  if (info && info->type == io::FileType::kFile) {
    return fail(Code::kUnsupported,
                "{}: an earlier version of Forebay began this pack, and this one cannot go on from "
                "there; finish it with that version, or remove the folder {} and pack anew",
                folder, dataset);
  }
  return io::exists(origin, identity_path(dataset));
}

Result<Journal::Content> Journal::read(const io::Origin& origin, const std::string& dataset) {
  Content content;
  ASSIGN_OR_RETURN(content.identity, read_identity(origin, dataset));
  const std::string folder = journal_path(dataset);
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(origin, folder));
  std::vector<uint64_t> numbers;
  for (const auto& entry : entries) {
    if (const uint64_t number = number_of(entry.name); number > 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  if (!numbers.empty()) content.next_file = numbers.back() + 1;
  std::vector<std::vector<ChunkRecord>> records(numbers.size());
  const size_t threads = std::min(numbers.size(), kReadsAtOnce);
  const auto read_file = [&](uint64_t i, uint64_t, size_t) -> Status {
    const std::string path = io::join_path(folder, std::to_string(numbers[i]));
    ASSIGN_OR_RETURN(records[i], read_records(origin, path));
    return {};
  };
  RETURN_IF_ERROR(io::share_work(numbers.size(), 1, threads, read_file));
  for (auto& some : records) std::ranges::move(some, std::back_inserter(content.records));
  return content;
}

Status Journal::begin(io::FileSystem& fs, const std::string& dataset, Bytes listing,
                      const PackIdentity& identity) {
  RETURN_IF_ERROR(fs.put(listing_path(dataset, identity), listing));
  const std::string line = encode_line({{"forebay_journal", 0}, {"identity", to_json(identity)}});
  return fs.put(identity_path(dataset), base::as_bytes(line), {.when = io::PutIf::kAbsent});
}

bool Journal::is_early(std::string_view name) {
  const bool is_listing =
      name.ends_with(kListingSuffix) &&
      base::sha256_from_hex(name.substr(0, name.size() - kListingSuffix.size())).has_value();
  return is_listing || io::is_unfinished_put(name);
}

// The identity is removed first, because a pack without it does not resume. So an interrupted
// removal never leaves a valid journal that lacks records.
Status Journal::remove(io::FileSystem& fs, const std::string& dataset) {
  const std::string folder = journal_path(dataset);
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(fs, folder));
  if (entries.empty() && !fs.stat(folder)) return {};
  std::vector<std::string> names = {std::string(kIdentityName)};
  for (const auto& entry : entries) {
    if (is_early(entry.name) || number_of(entry.name) > 0) names.push_back(entry.name);
  }
  for (const std::string& name : names) {
    const Status status = fs.remove(io::join_path(folder, name));
    if (!status.ok() && status.code() != Code::kNotFound) return status;
  }
  // The folder stays if it holds other files.
  if (names.size() >= entries.size()) static_cast<void>(fs.remove(folder).ok());
  return {};
}

Journal::Journal(io::FileSystem& fs, const std::string& dataset, uint64_t next_file)
    : fs_(fs), folder_(journal_path(dataset)), file_(next_file) {}

Status Journal::append(const ChunkRecord& record) {
  const std::string line = encode_line(encode_record(record));
  base::MutexLock lock(mutex_);
  lines_ += line;
  const uint64_t mine = ++appended_;
  while (error_.ok() && written_ < mine) {
    if (writing_) {
      written_more_.wait(mutex_);
    } else {
      write_lines();
    }
  }
  return error_;
}

// Releases the mutex while it writes. Nothing may throw while `writing_` is set, because other
// threads wait for it to be cleared.
void Journal::write_lines() {
  const std::string lines = lines_;
  writing_ = true;
  const uint64_t upto = appended_;
  const uint64_t number = file_;
  const bool is_new = file_is_new_;
  mutex_.unlock();
  auto put_as = put(lines, number, is_new);
  mutex_.lock();
  writing_ = false;
  if (put_as) {
    written_ = upto;
    file_is_new_ = lines.size() >= kFileBytes;
    file_ = *put_as + (file_is_new_ ? 1 : 0);
    if (file_is_new_) lines_.erase(0, lines.size());
  } else {
    error_ = std::move(put_as.error());
  }
  written_more_.notify_all();
}

// Writes a file of records and returns its number. A new file gets the next free number, because
// without locks another run of the same pack may write records at the same time.
Result<uint64_t> Journal::put(const std::string& lines, uint64_t number, bool is_new) {
  try {
    return put_file(lines, number, is_new);
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "{}: no memory to write there", folder_);
  }
}

Result<uint64_t> Journal::put_file(const std::string& lines, uint64_t number, bool is_new) {
  const auto path = [&] { return io::join_path(folder_, std::to_string(number)); };
  if (!is_new) {
    RETURN_IF_ERROR(fs_.put(path(), base::as_bytes(lines)));
    return number;
  }
  for (int tries = 0; tries < base::kLockTriesMax; ++tries, ++number) {
    const Status status = fs_.put(path(), base::as_bytes(lines), {.when = io::PutIf::kAbsent});
    if (status.ok()) return number;
    if (status.code() != Code::kExists) return tl::unexpected(status);
  }
  return fail(Code::kBusy, "{}: other runs of this pack took {} files in a row; stop them", folder_,
              base::kLockTriesMax);
}

}  // namespace forebay::store
