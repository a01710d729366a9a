#include "store/pack/pack_job.h"

#include <algorithm>

#include "base/limits.h"
#include "io/share_work.h"
#include "store/format/snapshot.h"
#include "store/format/tar.h"
#include "store/pack/json_guard.h"
#include "store/source/source_reader.h"

namespace forebay::store {

using base::Code;
using base::fail;

namespace {

constexpr int64_t kProgressEveryNs = 100'000'000;
constexpr size_t kQuestionsAtOnce = 16;  // requests to a remote file system at the same time
constexpr size_t kIndexesAtOnce = 16;    // chunk indexes in memory at the same time

std::string chunks_path(const std::string& dataset) { return io::join_path(dataset, "chunks"); }

// Whether a file in chunks/ has a name that only pack gives to its files.
bool is_made_here(std::string_view name) {
  const bool is_chunk =
      name.ends_with(".tar") && base::sha256_from_hex(name.substr(0, name.size() - 4)).has_value();
  return is_chunk || io::is_unfinished_put(name);
}

}  // namespace

// Resumes from the journal, or begins one in a fresh folder.
Status PackJob::prepare(Bytes encoded_listing) {
  {
    base::MutexLock lock(mutex_);
    progress_.samples_total = plan_.order.size();
    progress_.chunks_total = plan_.chunks();
    for (const uint64_t i : plan_.order) {
      for (const SourceFile& file : listing_.samples[i].files) progress_.bytes_total += file.length;
    }
  }
  auto content = Journal::read(fs_, dataset_);
  const bool is_fresh = !content && content.error().code() == Code::kNotFound;
  if (is_fresh) {
    // Another run may have begun meanwhile. Then this run takes part in that pack if it has the
    // same identity.
    const Status begun = Journal::begin(fs_, dataset_, encoded_listing, identity_);
    if (!begun.ok() && begun.code() != Code::kExists) return begun;
    content = Journal::read(fs_, dataset_);
  }
  RETURN_IF_ERROR(content);
  RETURN_IF_ERROR(resume(*content));
  if (is_alone_ && !is_fresh) RETURN_IF_ERROR(clean());
  journal_ = std::make_unique<Journal>(fs_, dataset_, content->next_file);
  return {};
}

Status PackJob::resume(const Journal::Content& content) {
  if (content.identity != identity_) {
    std::string what = first_difference(content.identity, identity_);
    if (content.identity.listing != identity_.listing) {
      const auto stored =
          fs_.read_whole(listing_path(dataset_, content.identity), base::kListingBytesMax);
      if (stored) what = "the source changed: " + first_difference(*stored, listing_);
    }
    return fail(Code::kExists,
                "{} holds a pack begun with other options or another source ({}); give the same "
                "options and source to go on, or remove the folder to begin anew",
                dataset_, what);
  }
  for (const ChunkRecord& record : content.records) {
    if (record.number < records_.size()) continue;
    return fail(Code::kCorrupt, "{}: a record of chunk {}, but the pack has {} chunks",
                journal_path(dataset_), record.number, records_.size());
  }
  std::vector<uint8_t> is_there(content.records.size());
  const auto ask = [&](uint64_t i, uint64_t, size_t) -> Status {
    ASSIGN_OR_RETURN(is_there[i], has_chunk(content.records[i]));
    return {};
  };
  RETURN_IF_ERROR(io::share_work(is_there.size(), 1, reads_at_once(), ask));
  for (size_t i = 0; i < is_there.size(); ++i) {
    if (is_there[i] != 0) take_record(content.records[i]);
  }
  return {};
}

// Whether the file of a recorded chunk exists. If it does not, the chunk is made again.
Result<bool> PackJob::has_chunk(const ChunkRecord& record) const {
  if (record.bytes == 0) return true;
  const auto info = fs_.stat(chunk_path(dataset_, record.id));
  if (!info && info.error().code() != Code::kNotFound) return tl::unexpected(info.error());
  return info && info->size == record.bytes;
}

// Counts a recorded chunk as made, but only once, because two runs may have recorded it.
void PackJob::take_record(const ChunkRecord& record) {
  if (records_[record.number]) return;
  ++chunks_resumed_;
  records_[record.number] = record;
  base::MutexLock lock(mutex_);
  progress_.samples += plan_.begin[record.number + 1] - plan_.begin[record.number];
  progress_.bytes += record.stats.source_bytes;
  progress_.refused += record.stats.refused.size();
  ++progress_.chunks;
}

size_t PackJob::reads_at_once() const {
  return fs_.is_remote(dataset_) ? kQuestionsAtOnce : io::threads_for(options_.threads);
}

// Removes the files that a killed run left in chunks/: half-written files, and chunks that it had
// not recorded yet. The journal shows that the folder belongs to this pack and that no snapshot
// names the files.
Status PackJob::clean() {
  std::vector<std::string> known;
  for (const auto& record : records_) {
    if (record && record->bytes > 0) known.push_back(base::to_hex(record->id) + ".tar");
  }
  std::sort(known.begin(), known.end());
  ASSIGN_OR_RETURN(const auto entries, io::list_if_there(fs_, chunks_path(dataset_)));
  for (const auto& entry : entries) {
    if (!is_made_here(entry.name) || std::binary_search(known.begin(), known.end(), entry.name))
      continue;
    RETURN_IF_ERROR(fs_.remove(io::join_path(chunks_path(dataset_), entry.name)));
  }
  return {};
}

// There are twice as many makers as threads, but only as many turns at rewriting as threads. So
// while some chunks are being rewritten, others are stored, and the first files of the next ones
// are read.
Status PackJob::make_chunks() {
  const auto left = static_cast<size_t>(
      std::count_if(records_.begin(), records_.end(), [](const auto& r) { return !r; }));
  const size_t threads = io::threads_for(options_.threads);
  const size_t makers = std::min(2 * threads, left);
  RewriteTurns turns(threads);
  std::vector<base::Crew> crews(makers);  // each begins one maker's reads
  const auto make = [&](uint64_t number, uint64_t, size_t maker) -> Status {
    if (records_[number] || stop_.is_requested()) return {};
    Status status = make_chunk(number, crews[maker], turns);
    if (status.code() == Code::kCancelled)
      return {};  // reported below, unless another chunk's error caused the stop
    if (!status.ok()) stop_.request();
    return status;
  };
  RETURN_IF_ERROR(io::share_work(plan_.chunks(), 1, makers, make));
  if (stop_.is_set()) {
    return fail(Code::kCancelled, "stopped on request");
  }
  return {};
}

Status PackJob::make_chunk(uint64_t number, base::Crew& crew, RewriteTurns& turns) {
  ChunkBuilder builder(listing_, identity_);
  ASSIGN_OR_RETURN(const auto chunk, build_chunk(number, crew, turns, &builder));
  ChunkRecord record;
  record.number = number;
  if (chunk) {
    RETURN_IF_ERROR(fs_.put_pieces(chunk_path(dataset_, chunk->id), chunk->pieces));
    record.id = chunk->id;
    record.bytes = chunk->bytes;
    record.index_bytes = chunk->index_bytes;
  }
  record.stats = std::move(builder.stats);
  RETURN_IF_ERROR(journal_->append(record));
  note_chunk(std::move(record));
  return {};
}

// Reads the chunk's samples, and rewrites them when it is this thread's turn. Returns nothing if
// every sample was refused.
Result<std::optional<ChunkBuilder::Finished>> PackJob::build_chunk(uint64_t number,
                                                                   base::Crew& crew,
                                                                   RewriteTurns& turns,
                                                                   ChunkBuilder* builder) {
  const uint64_t end = plan_.begin[number + 1];
  const auto sample_at = [this](uint64_t i) { return &listing_.samples[plan_.order[i]]; };
  uint64_t to_read = plan_.begin[number];
  const auto next = [&] { return to_read < end ? sample_at(to_read++) : nullptr; };
  SourceReader reader(crew, from_, listing_, next, stop_.token());
  turns.take();
  const std::unique_ptr<RewriteTurns, decltype([](RewriteTurns* taken) { taken->give_back(); })>
      turn(&turns);
  for (uint64_t i = plan_.begin[number]; i < end; ++i) {
    if (stop_.is_requested()) return fail(Code::kCancelled, "stopped");
    const SourceSample& sample = *sample_at(i);
    ASSIGN_OR_RETURN(const auto refused, builder->add(sample, reader.take()));
    if (refused && options_.on_error == OnError::kStop) {
      return fail(Code::kCorrupt, "{}: {}; --on-error skip leaves such samples out", refused->path,
                  refused->reason);
    }
    note_sample(sample, refused.has_value());
  }
  if (builder->samples() == 0) return std::nullopt;
  ASSIGN_OR_RETURN(ChunkBuilder::Finished chunk, builder->finish());
  return chunk;
}

void PackJob::note_sample(const SourceSample& sample, bool refused) {
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

void PackJob::note_chunk(ChunkRecord record) {
  base::MutexLock lock(mutex_);
  const uint64_t number = record.number;
  records_[number] = std::move(record);
  ++progress_.chunks;
}

// Called after the workers have ended.
Status PackJob::explain(const Status& error) const {
  const bool goes_on = error.code() == Code::kNoSpace || error.code() == Code::kNoMemory ||
                       error.code() == Code::kIo || io::is_unanswered(error.code());
  if (!goes_on) return error;
  uint64_t complete = 0;
  uint64_t left_bytes = 0;
  for (uint64_t i = 0; i < plan_.chunks(); ++i) {
    complete += records_[i] ? 1 : 0;
    left_bytes += records_[i] ? 0 : plan_.bytes[i];
  }
  std::string message = error.message();
  if (error.code() == Code::kNoSpace && left_bytes > 0) {
    message += fmt::format(" (needs about {} more)", base::human_bytes(left_bytes));
  }
  return Status(error.code(),
                fmt::format("{}; {} of {} complete, run the same command again to go on", message,
                            complete, base::counted(plan_.chunks(), "chunk")));
}

PackReport PackJob::sum() const {
  PackReport report;
  report.identity = identity_;
  report.ignored = listing_.ignored;
  report.remarks = listing_.left_out;
  report.remarks.insert(report.remarks.end(), listing_.hidden.begin(), listing_.hidden.end());
  report.remarks.insert(report.remarks.end(), listing_.remarks.begin(), listing_.remarks.end());
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

// If this fails, the journal stays, so that the same pack with a larger --skip-max can resume.
Status PackJob::check_refused(const PackStats& stats) const {
  if (stats.samples == 0) {
    return fail(Code::kInvalid, "no sample is left: all {} were refused, the first is {}: {}",
                stats.refused.size(), stats.refused[0].path, stats.refused[0].reason);
  }
  // The listing's refusals concern the whole source. So if a limit left samples out, only refusals
  // of packed samples count.
  const bool is_whole = plan_.order.size() == listing_.samples.size();
  const auto refused = std::span(stats.refused).subspan(is_whole ? 0 : listing_.refused.size());
  const uint64_t samples = plan_.order.size() + (is_whole ? listing_.refused.size() : 0);
  if (options_.skip_max.allows(refused.size(), samples)) return {};
  return fail(
      Code::kCorrupt,
      "refused {} of {} ({:.1f} %), which is more than --skip-max {} allows; the first, {}: "
      "{}; all others are packed and kept: the same command with --skip-max {} completes "
      "the dataset without them at once, and its report lists them",
      refused.size(), base::counted(samples, "sample"),
      100.0 * static_cast<double>(refused.size()) / static_cast<double>(samples),
      to_text(options_.skip_max), refused[0].path, refused[0].reason, refused.size());
}

Result<ChunkIndex> PackJob::read_index(const ChunkRecord& record) const {
  const std::string path = chunk_path(dataset_, record.id);
  ASSIGN_OR_RETURN(const auto file, fs_.open(path, {.known = io::Identity{.size = record.bytes}}));
  base::ByteVector data(record.index_bytes);
  RETURN_IF_ERROR(file->read(kTarBlockBytes, data));
  auto index = decode_chunk_index(data, record.bytes);
  if (!index) return tl::unexpected(index.error().at(path));
  return index;
}

Status PackJob::add_chunks(SnapshotBuilder* snapshot) const {
  std::vector<const ChunkRecord*> chunks;
  for (const auto& record : records_) {
    if (record->bytes > 0) chunks.push_back(&*record);
  }
  std::array<ChunkIndex, kIndexesAtOnce> indexes;
  for (size_t first = 0; first < chunks.size(); first += kIndexesAtOnce) {
    const size_t count = std::min(chunks.size() - first, kIndexesAtOnce);
    const auto read = [&](uint64_t i, uint64_t, size_t) -> Status {
      ASSIGN_OR_RETURN(indexes[i], read_index(*chunks[first + i]));
      return {};
    };
    RETURN_IF_ERROR(io::share_work(count, 1, std::min(count, reads_at_once()), read));
    for (size_t i = 0; i < count; ++i) {
      const ChunkRecord& record = *chunks[first + i];
      const ChunkInfo info{.id = record.id,
                           .bytes = record.bytes,
                           .samples = static_cast<uint32_t>(indexes[i].samples.size()),
                           .index_bytes = record.index_bytes};
      RETURN_IF_ERROR(snapshot->add_chunk(info, indexes[i]));
    }
  }
  return {};
}

// Writes the snapshot and the report, and then removes the journal. After a kill between these
// steps the journal is still there, so the next run commits the same snapshot again. Pack replaces
// no dataset, so there must be no HEAD, or the HEAD of this very snapshot.
Result<PackReport> PackJob::finish() {
  PackReport report = sum();
  RETURN_IF_ERROR(check_refused(report.stats));
  SnapshotBuilder snapshot(fs_, dataset_, listing_.schema);
  RETURN_IF_ERROR(add_chunks(&snapshot));
  ASSIGN_OR_RETURN(report.root, snapshot.commit());
  const std::string text = dump_json(to_json(report)) + "\n";
  RETURN_IF_ERROR(fs_.put(report_path(dataset_, report.root), base::as_bytes(text)));
  RETURN_IF_ERROR(Journal::remove(fs_, dataset_));
  base::MutexLock lock(mutex_);
  progress_.seconds = static_cast<double>(io::monotonic_ns() - started_ns_) * 1e-9;
  if (options_.progress) options_.progress(progress_);
  return report;
}

}  // namespace forebay::store
