#include "store/pack.h"

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/limits.h"
#include "io/machine.h"
#include "store/journal.h"
#include "store/pack_chunk.h"
#include "store/pack_plan.h"
#include "store/snapshot.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr uint64_t kListingBytesMax = 64ull << 30;
constexpr int64_t kProgressEveryNs = 100'000'000;

Status check_options(const std::string& dataset, const PackOptions& options) {
  if (dataset.empty()) return fail(Code::kInvalid, "the dataset's name is empty");
  if (options.threads < 0 || options.threads > base::kThreadsMax) {
    return fail(Code::kInvalid, "{} threads, 0 to {} are possible", options.threads,
                base::kThreadsMax);
  }
  const uint64_t largest = base::kChunkBytesMax / 2;  // a rewritten file may be larger than it was
  if (options.chunk_bytes < base::kChunkBytesMin || options.chunk_bytes > largest) {
    return fail(Code::kInvalid, "chunks of {} bytes, {} to {} are possible", options.chunk_bytes,
                base::kChunkBytesMin, largest);
  }
  return {};
}

std::string chunks_path(const std::string& dataset) { return io::join_path(dataset, "chunks"); }

// One run of pack on a listed source, with the dataset's lock held.
class Packing {
 public:
  Packing(io::FileSystem& fs, std::string dataset, const Listing& listing, PackPlan plan,
          const PackIdentity& identity, const PackOptions& options)
      : fs_(fs),
        dataset_(std::move(dataset)),
        listing_(listing),
        plan_(std::move(plan)),
        identity_(identity),
        options_(options),
        records_(plan_.chunks()) {}

  Status prepare(Bytes encoded_listing);
  Status make_chunks();
  Result<PackReport> finish();

 private:
  Status resume(const Journal::Content& content);
  Status take_record(const ChunkRecord& record);
  Status clean();
  void work();
  Status make_chunk(uint64_t number);
  Result<ChunkRecord> build_chunk(uint64_t number, ChunkBuilder* builder);
  Status keep(const ChunkBuilder::Written& written, const std::string& temporary);
  void note_sample(const SourceSample& sample, bool refused);
  void note_chunk(ChunkRecord record);
  bool stopping() const { return failed_ || (options_.stop != nullptr && *options_.stop); }
  Status explain(const Status& error);
  PackReport sum() const;

  io::FileSystem& fs_;
  const std::string dataset_;
  const Listing& listing_;
  const PackPlan plan_;
  const PackIdentity identity_;
  const PackOptions& options_;
  std::unique_ptr<Journal> journal_;
  uint64_t chunks_resumed_ = 0;
  std::atomic<uint64_t> next_chunk_ = 0;
  std::atomic<bool> failed_ = false;
  const int64_t started_ns_ = io::monotonic_ns();

  base::Mutex mutex_;
  // By chunk; empty where it is still to be made. Read without the mutex once the workers ended.
  std::vector<std::optional<ChunkRecord>> records_;
  Status error_ GUARDED_BY(mutex_);
  PackProgress progress_ GUARDED_BY(mutex_);
  int64_t shown_ns_ GUARDED_BY(mutex_) = 0;
};

// What is there: a journal to go on from, or a fresh folder.
Status Packing::prepare(Bytes encoded_listing) {
  {
    base::MutexLock lock(mutex_);
    progress_.samples_total = plan_.order.size();
    progress_.chunks_total = plan_.chunks();
    for (const uint64_t i : plan_.order) {
      for (const SourceFile& file : listing_.samples[i].files) progress_.bytes_total += file.length;
    }
  }
  auto content = Journal::read(fs_, dataset_);
  uint64_t good_bytes = 0;
  if (content) {
    RETURN_IF_ERROR(resume(*content));
    good_bytes = content->good_bytes;
  } else if (content.error().code() == Code::kNotFound) {
    RETURN_IF_ERROR(Journal::begin(fs_, dataset_, encoded_listing, identity_));
    ASSIGN_OR_RETURN(const auto fresh, Journal::read(fs_, dataset_));
    good_bytes = fresh.good_bytes;
  } else {
    return content.error();
  }
  RETURN_IF_ERROR(clean());
  ASSIGN_OR_RETURN(journal_, Journal::open(fs_, dataset_, good_bytes));
  return {};
}

Status Packing::resume(const Journal::Content& content) {
  if (content.identity != identity_) {
    std::string what = first_difference(content.identity, identity_);
    if (content.identity.listing != identity_.listing) {
      const auto stored = io::read_file(fs_, listing_path(dataset_), kListingBytesMax);
      if (stored) what = "the source changed: " + first_difference(*stored, listing_);
    }
    return fail(Code::kExists,
                "{} holds a pack begun with other options or another source ({}); give the same "
                "to go on, or remove the folder to begin anew",
                dataset_, what);
  }
  for (const ChunkRecord& record : content.records) RETURN_IF_ERROR(take_record(record));
  return {};
}

// A chunk whose file is not there (any more) is made again.
Status Packing::take_record(const ChunkRecord& record) {
  if (record.number >= records_.size()) {
    return fail(Code::kCorrupt, "{}: chunk {} of {}", journal_path(dataset_), record.number,
                records_.size());
  }
  if (record.bytes > 0) {
    const auto info = fs_.stat(chunk_path(dataset_, record.id));
    if (!info && info.error().code() != Code::kNotFound) return info.error();
    if (!info || info->size != record.bytes) return {};
  }
  if (!records_[record.number]) ++chunks_resumed_;
  records_[record.number] = record;
  base::MutexLock lock(mutex_);
  progress_.samples += plan_.begin[record.number + 1] - plan_.begin[record.number];
  progress_.bytes += record.stats.source_bytes;
  progress_.refused += record.stats.refused.size();
  ++progress_.chunks;
  return {};
}

// Removes what a killed run left in chunks/: half-written files, and chunks that it did not come
// to record. No snapshot names them, since the journal is still here.
Status Packing::clean() {
  std::vector<std::string> known;
  for (const auto& record : records_) {
    if (record && record->bytes > 0) known.push_back(base::to_hex(record->id) + ".tar");
  }
  std::sort(known.begin(), known.end());
  ASSIGN_OR_RETURN(const auto entries, fs_.list(chunks_path(dataset_)));
  for (const auto& entry : entries) {
    const bool ours = entry.name.ends_with(".tmp") || entry.name.ends_with(".tar");
    if (!ours || std::binary_search(known.begin(), known.end(), entry.name)) continue;
    RETURN_IF_ERROR(fs_.remove(io::join_path(chunks_path(dataset_), entry.name)));
  }
  return {};
}

Status Packing::make_chunks() {
  const auto left = static_cast<uint64_t>(
      std::count_if(records_.begin(), records_.end(), [](const auto& r) { return !r; }));
  const uint64_t wanted =
      static_cast<uint64_t>(options_.threads > 0 ? options_.threads : io::usable_cores());
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < std::min(wanted, left); ++i) workers.emplace_back([this] { work(); });
  for (std::thread& worker : workers) worker.join();
  base::MutexLock lock(mutex_);
  if (!error_.ok()) return explain(error_);
  if (options_.stop != nullptr && *options_.stop) {
    return explain(fail(Code::kCancelled, "stopped on request"));
  }
  return {};
}

void Packing::work() {
  while (!stopping()) {
    const uint64_t number = next_chunk_++;
    if (number >= plan_.chunks()) return;
    if (records_[number]) continue;
    Status status;
    try {
      status = make_chunk(number);
    } catch (const std::bad_alloc&) {
      status = fail(Code::kNoMemory, "no memory for chunk {}; give fewer --threads", number);
    }
    if (status.ok()) continue;
    base::MutexLock lock(mutex_);
    failed_ = true;
    if (error_.ok() && status.code() != Code::kCancelled) error_ = std::move(status);
  }
}

Status Packing::make_chunk(uint64_t number) {
  ChunkBuilder builder(fs_, listing_, identity_.tar_fields);
  ASSIGN_OR_RETURN(ChunkRecord record, build_chunk(number, &builder));
  RETURN_IF_ERROR(journal_->append(record));
  note_chunk(std::move(record));
  return {};
}

Result<ChunkRecord> Packing::build_chunk(uint64_t number, ChunkBuilder* builder) {
  for (uint64_t i = plan_.begin[number]; i < plan_.begin[number + 1]; ++i) {
    if (stopping()) return fail(Code::kCancelled, "stopped");
    const SourceSample& sample = listing_.samples[plan_.order[i]];
    ASSIGN_OR_RETURN(const auto refused, builder->add(sample));
    if (refused && options_.on_error == OnError::kStop) {
      return fail(Code::kCorrupt, "{}: {}; --on-error skip leaves such samples out", refused->path,
                  refused->reason);
    }
    note_sample(sample, refused.has_value());
  }
  ChunkRecord record;
  record.number = number;
  if (builder->samples() > 0) {
    const std::string temporary =
        io::join_path(chunks_path(dataset_), fmt::format("{}.tmp", number));
    auto written = builder->write(fs_, temporary);
    Status status = base::status_of(written);
    if (status.ok()) status = keep(*written, temporary);
    if (!status.ok()) {
      // Makes room on a full disk; the error to report is the first.
      static_cast<void>(fs_.remove(temporary).ok());
      return tl::unexpected(std::move(status));
    }
    record.id = written->id;
    record.bytes = written->bytes;
    record.index_bytes = written->index_bytes;
  }
  record.stats = std::move(builder->stats);
  return record;
}

Status Packing::keep(const ChunkBuilder::Written& written, const std::string& temporary) {
  RETURN_IF_ERROR(fs_.rename(temporary, chunk_path(dataset_, written.id)));
  return fs_.sync_dir(chunks_path(dataset_));
}

void Packing::note_sample(const SourceSample& sample, bool refused) {
  base::MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const SourceFile& file : sample.files) bytes += file.length;
  ++progress_.samples;
  ++progress_.samples_now;
  progress_.bytes += bytes;
  progress_.bytes_now += bytes;
  progress_.refused += refused ? 1 : 0;
  const int64_t now = io::monotonic_ns();
  if (!options_.progress || now - shown_ns_ < kProgressEveryNs) return;
  shown_ns_ = now;
  progress_.seconds = static_cast<double>(now - started_ns_) * 1e-9;
  options_.progress(progress_);
}

void Packing::note_chunk(ChunkRecord record) {
  base::MutexLock lock(mutex_);
  const uint64_t number = record.number;
  records_[number] = std::move(record);
  ++progress_.chunks;
}

// Adds to an error how things stand. The workers have ended; the caller holds the mutex.
Status Packing::explain(const Status& error) {
  uint64_t complete = 0;
  uint64_t left_bytes = 0;
  for (uint64_t i = 0; i < plan_.chunks(); ++i) {
    complete += records_[i] ? 1 : 0;
    left_bytes += records_[i] ? 0 : plan_.bytes[i];
  }
  std::string message = error.message();
  if (error.code() == Code::kNoSpace) {
    message += fmt::format(" (needs about {} more)", base::human_bytes(left_bytes));
  }
  return Status(error.code(),
                fmt::format("{}; {} of {} chunks are complete, run the same command again to go on",
                            message, complete, plan_.chunks()));
}

PackReport Packing::sum() const {
  PackReport report;
  report.identity = identity_;
  report.ignored = listing_.ignored;
  report.chunks_resumed = chunks_resumed_;
  for (const auto& record : records_) {
    report.stats.add(record->stats);
    report.chunks += record->bytes > 0 ? 1 : 0;
    report.dataset_bytes += record->bytes;
  }
  report.stats.refused.insert(report.stats.refused.begin(), listing_.refused.begin(),
                              listing_.refused.end());
  return report;
}

// The snapshot, the report, and then the journal goes. A kill between them is found by the
// journal that is still there: the next run commits the same snapshot again.
Result<PackReport> Packing::finish() {
  PackReport report = sum();
  if (report.stats.samples == 0) {
    return fail(Code::kInvalid, "no sample is left: all {} were refused, the first is {}: {}",
                report.stats.refused.size(), report.stats.refused[0].path,
                report.stats.refused[0].reason);
  }
  SnapshotBuilder snapshot(fs_, dataset_, listing_.schema);
  for (const auto& record : records_) {
    if (record->bytes == 0) continue;
    const std::string path = chunk_path(dataset_, record->id);
    ASSIGN_OR_RETURN(const auto file, fs_.open(path));
    base::ByteVector data(record->index_bytes);
    RETURN_IF_ERROR(file->read(512, data));
    auto index = decode_chunk_index(data, record->bytes);
    if (!index) return tl::unexpected(index.error().at(path));
    const ChunkInfo info{.id = record->id,
                         .bytes = record->bytes,
                         .samples = static_cast<uint32_t>(index->samples.size()),
                         .index_bytes = record->index_bytes};
    RETURN_IF_ERROR(snapshot.add_chunk(info, *index));
  }
  ASSIGN_OR_RETURN(report.root, snapshot.commit());
  const std::string text = dump_json(to_json(report)) + "\n";
  RETURN_IF_ERROR(
      io::write_file_atomically(fs_, report_path(dataset_, report.root), base::as_bytes(text)));
  RETURN_IF_ERROR(Journal::remove(fs_, dataset_));
  base::MutexLock lock(mutex_);
  progress_.seconds = static_cast<double>(io::monotonic_ns() - started_ns_) * 1e-9;
  if (options_.progress) options_.progress(progress_);
  return report;
}

// A dataset without a journal: complete with the same identity, or somebody else's.
Result<PackReport> report_of_complete(const io::FileSystem& fs, const std::string& dataset,
                                      const PackIdentity& identity) {
  ASSIGN_OR_RETURN(const auto head, io::read_file(fs, head_path(dataset), 4096));
  ASSIGN_OR_RETURN(const base::Sha256 root, decode_head(base::as_text(head)));
  const auto other = [&](const std::string& why) {
    return fail(Code::kExists, "{} holds a complete dataset already ({}); choose another folder",
                dataset, why);
  };
  const auto stored = io::read_file(fs, report_path(dataset, root), kListingBytesMax);
  if (!stored) return other("not packed by one command");
  ASSIGN_OR_RETURN(PackReport report, report_from_json(*stored));
  if (report.identity != identity) return other(first_difference(report.identity, identity));
  report.root = root;
  report.was_complete = true;
  return report;
}

Status check_folder_is_free(const io::FileSystem& fs, const std::string& dataset) {
  ASSIGN_OR_RETURN(const auto entries, fs.list(dataset));
  for (const auto& entry : entries) {
    const bool ours = entry.name == "LOCK" || entry.name == "chunks" || entry.name == "snapshots" ||
                      entry.name == "listing" || entry.name.ends_with(".tmp");
    if (!ours) {
      return fail(Code::kExists, "{} holds other files ({}); choose an empty or a new folder",
                  dataset, entry.name);
    }
  }
  return {};
}

bool exists(const io::FileSystem& fs, const std::string& path) { return fs.stat(path).has_value(); }

Result<PackReport> pack_locked(io::FileSystem& fs, const std::string& dataset,
                               const Listing& listing, const PackOptions& options) {
  const base::ByteVector encoded = encode_listing(listing);
  const PackIdentity identity{.listing = base::sha256(encoded),
                              .chunk_bytes = options.chunk_bytes,
                              .seed = options.seed,
                              .limit = options.limit,
                              .shuffled = options.shuffled,
                              .tar_fields = options.tar_fields};
  const bool begun = exists(fs, journal_path(dataset));
  if (!begun && exists(fs, head_path(dataset))) return report_of_complete(fs, dataset, identity);
  if (!begun) RETURN_IF_ERROR(check_folder_is_free(fs, dataset));
  for (const char* folder : {"chunks", "snapshots"}) {
    RETURN_IF_ERROR(fs.make_dirs(io::join_path(dataset, folder)));
  }
  RETURN_IF_ERROR(fs.sync_dir(dataset));
  PackPlan plan =
      make_plan(listing, options.chunk_bytes, options.shuffled, options.seed, options.limit);
  Packing packing(fs, dataset, listing, std::move(plan), identity, options);
  RETURN_IF_ERROR(packing.prepare(encoded));
  RETURN_IF_ERROR(packing.make_chunks());
  return packing.finish();
}

}  // namespace

Result<PackReport> pack(io::FileSystem& fs, const std::string& source, const std::string& dataset,
                        const PackOptions& options) {
  const auto run = [&]() -> Result<PackReport> {
    RETURN_IF_ERROR(check_options(dataset, options));
    ASSIGN_OR_RETURN(const Listing listing, list_source(fs, source));
    if (options.on_error == OnError::kStop && !listing.refused.empty()) {
      return fail(Code::kCorrupt, "{}: {}; --on-error skip leaves such samples out",
                  listing.refused[0].path, listing.refused[0].reason);
    }
    RETURN_IF_ERROR(fs.make_dirs(dataset));
    RETURN_IF_ERROR(fs.sync_dir(io::parent_path(dataset)));
    ASSIGN_OR_RETURN(const auto lock, fs.lock(io::join_path(dataset, "LOCK")));
    return pack_locked(fs, dataset, listing, options);
  };
  auto report = run();
  if (!report) return tl::unexpected(report.error().at("pack"));
  return report;
}

}  // namespace forebay::store
