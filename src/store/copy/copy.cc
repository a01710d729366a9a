#include "store/copy/copy.h"

#include <algorithm>

#include "base/limits.h"
#include "base/mutex.h"
#include "io/machine.h"
#include "io/share_work.h"
#include "io/stop_flag.h"
#include "store/copy/copy_target.h"
#include "store/pack/report.h"
#include "store/second_read.h"
#include "store/stored_snapshot.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;

namespace {

// The least number of chunks that are copied at the same time from or to a remote place.
constexpr size_t kFarChunksAtOnce = 8;
// A chunk is read in pieces of this size. The copy can be stopped between two pieces.
constexpr uint64_t kPieceBytes = 8 << 20;
constexpr int64_t kProgressEveryNs = 100'000'000;

// Returns the chunks that a part names. The part's bytes must match its hash.
Result<std::vector<ChunkFile>> chunks_of(Bytes part, const PartRef& ref) {
  ASSIGN_OR_RETURN(const PartHeader header,
                   decode_part_header(part.first(std::min<size_t>(part.size(), ref.header_bytes))));
  if (header.file_bytes != part.size()) {
    return fail(Code::kCorrupt, "it has {} bytes, but its header says {}", part.size(),
                header.file_bytes);
  }
  const uint8_t* const ids = part.data() + header.column(PartColumn::kChunkId).offset;
  const uint8_t* const sizes = part.data() + header.column(PartColumn::kChunkBytes).offset;
  std::vector<ChunkFile> chunks(header.chunks);
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i].id = base::load_le<base::Sha256>(ids + sizeof(base::Sha256) * i);
    chunks[i].bytes = base::load_le<uint64_t>(sizes + sizeof(uint64_t) * i);
    if (chunks[i].bytes > base::kChunkBytesMax) {
      return fail(Code::kTooBig, "chunk {} of {} bytes, more than {}", base::to_hex(chunks[i].id),
                  chunks[i].bytes, base::kChunkBytesMax);
    }
  }
  return chunks;
}

// One run of a copy.
class Copy {
 public:
  Copy(const io::Origin& from, std::string source, io::FileSystem& to, std::string target,
       const CopyOptions& options)
      : from_(from),
        source_(std::move(source)),
        to_(to),
        target_(to, std::move(target)),
        options_(options),
        stop_(options.stop) {}

  Result<CopyReport> run();

 private:
  Status explain_source(const Status& error) const;
  Status copy_part(const PartRef& ref);
  Result<ByteVector> read_part(const PartRef& ref, const std::string& path) const;
  Status find_missing();
  Status copy_chunks();
  Status copy_chunk(const ChunkFile& chunk, ByteVector* buffer);
  Status read_chunk(const ChunkFile& chunk, const std::string& path, base::MutableBytes out);
  Result<std::unique_ptr<io::ReadableFile>> open(const std::string& path, uint64_t bytes) const;
  Status finish();
  Status copy_report();
  Status explain(const Status& error);

  size_t threads() const;
  void note_read(uint64_t bytes);
  void note_chunk(uint64_t bytes_copied);

  const io::Origin& from_;
  const std::string source_;
  io::FileSystem& to_;
  CopyTarget target_;
  const CopyOptions& options_;
  StoredSnapshot snapshot_;
  bool is_current_ = false;         // whether the target's HEAD already names this snapshot
  std::vector<ChunkFile> chunks_;   // of the snapshot, without repetitions
  std::vector<ChunkFile> missing_;  // the chunks that the target lacks
  io::StopFlag stop_;               // also requested when a chunk fails
  const int64_t started_ns_ = io::monotonic_ns();

  base::Mutex mutex_;
  CopyReport report_ GUARDED_BY(mutex_);
  CopyProgress progress_ GUARDED_BY(mutex_);
  int64_t shown_ns_ GUARDED_BY(mutex_) = 0;
};

Result<CopyReport> Copy::run() {
  auto snapshot = read_snapshot(from_, source_);
  if (!snapshot) return tl::unexpected(explain_source(snapshot.error()));
  snapshot_ = std::move(*snapshot);
  ASSIGN_OR_RETURN(const auto lock, target_.lock(from_, source_));
  const auto copy = [&]() -> Status {
    ASSIGN_OR_RETURN(is_current_, target_.begin(snapshot_.id));
    for (const PartRef& ref : snapshot_.root.parts) RETURN_IF_ERROR(copy_part(ref));
    RETURN_IF_ERROR(find_missing());
    RETURN_IF_ERROR(copy_chunks());
    return finish();
  };
  if (const Status status = copy(); !status.ok()) {
    return tl::unexpected(explain(status));
  }
  base::MutexLock hold(mutex_);
  return report_;
}

// Adds advice to the error for data in place, which cp refuses because it has no hashes to compare.
Status Copy::explain_source(const Status& error) const {
  if (error.code() != Code::kNotFound) return error;
  const auto has_head = io::exists(from_, head_path(source_));
  if (!has_head || *has_head) return error;
  return Status(error.code(), error.message() +
                                  ", or use another program to copy data that is not packed: cp "
                                  "copies packed datasets only");
}

// A part has some tens of megabytes for a million samples. It is read even if the target has it
// already, because it names the chunks.
Status Copy::copy_part(const PartRef& ref) {
  if (stop_.is_requested()) return fail(Code::kCancelled, "stopped on request");
  const std::string path = part_path(source_, ref.id);
  if (ref.bytes > base::kSnapshotFileBytesMax) {
    return fail(Code::kTooBig, "{}: {} bytes, more than {}", path, ref.bytes,
                base::kSnapshotFileBytesMax);
  }
  ASSIGN_OR_RETURN(const ByteVector part,
                   with_second_read(from_.is_remote(path), [&] { return read_part(ref, path); }));
  const auto chunks = chunks_of(part, ref);
  if (!chunks) return chunks.error().at(path);
  chunks_.insert(chunks_.end(), chunks->begin(), chunks->end());
  return target_.put_if_missing(part_path(target_.folder(), ref.id), part);
}

Result<ByteVector> Copy::read_part(const PartRef& ref, const std::string& path) const {
  ASSIGN_OR_RETURN(const auto file, open(path, ref.bytes));
  ByteVector part(ref.bytes);
  RETURN_IF_ERROR(file->read(0, part, {.stop = stop_.token()}));
  if (base::sha256(part) == ref.id) return part;
  return fail(Code::kCorrupt, "{}: damaged: its bytes do not match the hash in its name", path);
}

// Finds the snapshot's chunks that the target lacks.
Status Copy::find_missing() {
  std::ranges::sort(chunks_);
  const auto repeated = std::ranges::unique(chunks_);
  chunks_.erase(repeated.begin(), repeated.end());
  ASSIGN_OR_RETURN(missing_, target_.missing(chunks_));
  base::MutexLock lock(mutex_);
  report_.root = snapshot_.id;
  report_.chunks = chunks_.size();
  for (const ChunkFile& chunk : chunks_) report_.bytes += chunk.bytes;
  for (const PartRef& ref : snapshot_.root.parts) report_.samples += ref.samples;
  report_.was_complete = is_current_ && missing_.empty();
  progress_.chunks = report_.chunks - missing_.size();
  progress_.chunks_total = report_.chunks;
  progress_.bytes = report_.bytes;
  for (const ChunkFile& chunk : missing_) progress_.bytes -= chunk.bytes;
  progress_.bytes_total = report_.bytes;
  return {};
}

size_t Copy::threads() const {
  if (options_.threads > 0) return static_cast<size_t>(options_.threads);
  const size_t cores = io::threads_for(0);
  const bool is_far = from_.is_remote(source_) || to_.is_remote(target_.folder());
  const uint64_t largest = std::ranges::max(missing_, {}, &ChunkFile::bytes).bytes;
  const uint64_t in_memory = io::available_memory_bytes() / 2 / std::max<uint64_t>(largest, 1);
  return std::clamp<uint64_t>(in_memory, 1, is_far ? std::max(cores, kFarChunksAtOnce) : cores);
}

Status Copy::copy_chunks() {
  if (!missing_.empty()) {
    std::vector<ByteVector> buffers(std::min(threads(), missing_.size()));
    const auto copy = [&](uint64_t number, uint64_t, size_t thread) -> Status {
      if (stop_.is_requested()) return {};
      Status status = copy_chunk(missing_[number], &buffers[thread]);
      if (status.code() == Code::kCancelled) return {};  // reported below
      if (!status.ok()) stop_.request();
      return status;
    };
    RETURN_IF_ERROR(io::share_work(missing_.size(), 1, buffers.size(), copy));
  }
  if (stop_.is_set()) return fail(Code::kCancelled, "stopped on request");
  return {};
}

Status Copy::copy_chunk(const ChunkFile& chunk, ByteVector* buffer) {
  const std::string path = chunk_path(source_, chunk.id);
  buffer->resize(chunk.bytes);
  RETURN_IF_ERROR(
      with_second_read(from_.is_remote(path), [&] { return read_chunk(chunk, path, *buffer); }));
  RETURN_IF_ERROR(to_.put(chunk_path(target_.folder(), chunk.id), *buffer));
  note_chunk(chunk.bytes);
  return {};
}

Status Copy::read_chunk(const ChunkFile& chunk, const std::string& path, base::MutableBytes out) {
  ASSIGN_OR_RETURN(const auto file, open(path, chunk.bytes));
  base::Sha256Stream hash;
  uint64_t read = 0;
  while (read < out.size()) {
    if (stop_.is_requested()) return fail(Code::kCancelled, "stopped");
    const auto piece = out.subspan(read, std::min(kPieceBytes, out.size() - read));
    RETURN_IF_ERROR(file->read(read, piece, {.stop = stop_.token()}));
    hash.add(piece);
    read += piece.size();
    note_read(piece.size());
  }
  if (hash.finish() == chunk.id) return {};
  base::MutexLock lock(mutex_);
  progress_.bytes -= read;
  return fail(Code::kCorrupt,
              "{}: damaged: its bytes do not match the hash in its name; `forebay verify {}` lists "
              "all damage",
              path, source_);
}

// Opens a file of the source, whose size must be that in the snapshot.
Result<std::unique_ptr<io::ReadableFile>> Copy::open(const std::string& path,
                                                     uint64_t bytes) const {
  ASSIGN_OR_RETURN(auto file, from_.open(path, {.known = io::Identity{.size = bytes}}));
  if (file->identity().size == bytes) return file;
  return fail(Code::kCorrupt,
              "{}: damaged: {} bytes, but the snapshot says {}; `forebay verify {}` lists all "
              "damage",
              path, file->identity().size, bytes, source_);
}

void Copy::note_read(uint64_t bytes) {
  base::MutexLock lock(mutex_);
  progress_.bytes += bytes;
  progress_.bytes_now += bytes;
  const int64_t now = io::monotonic_ns();
  if (!options_.progress || now - shown_ns_ < kProgressEveryNs) return;
  shown_ns_ = now;
  progress_.seconds = static_cast<double>(now - started_ns_) * 1e-9;
  options_.progress(progress_);
}

void Copy::note_chunk(uint64_t bytes_copied) {
  base::MutexLock lock(mutex_);
  ++progress_.chunks;
  ++report_.chunks_copied;
  report_.bytes_copied += bytes_copied;
}

// HEAD is stored last, after everything that it leads to.
Status Copy::finish() {
  RETURN_IF_ERROR(
      target_.put_if_missing(root_path(target_.folder(), snapshot_.id), snapshot_.bytes));
  RETURN_IF_ERROR(copy_report());
  RETURN_IF_ERROR(target_.make_current(snapshot_.id, is_current_));
  base::MutexLock lock(mutex_);
  progress_.seconds = static_cast<double>(io::monotonic_ns() - started_ns_) * 1e-9;
  if (options_.progress) options_.progress(progress_);
  return {};
}

// A dataset that pack did not make has no report.
Status Copy::copy_report() {
  const std::string path = report_path(source_, snapshot_.id);
  const auto report = with_second_read(from_.is_remote(path), [&]() -> Result<ByteVector> {
    ASSIGN_OR_RETURN(ByteVector text, from_.read_whole(path, base::kListingBytesMax));
    const auto parsed = report_from_json(text);
    if (!parsed) return tl::unexpected(parsed.error().at(path));
    return text;
  });
  if (!report && report.error().code() == Code::kNotFound) return {};
  RETURN_IF_ERROR(report);
  return target_.put_if_missing(report_path(target_.folder(), snapshot_.id), *report);
}

Status Copy::explain(const Status& error) {
  const bool goes_on = error.code() == Code::kNoSpace || error.code() == Code::kNoMemory ||
                       error.code() == Code::kIo || error.code() == Code::kCorrupt ||
                       io::is_unanswered(error.code());
  base::MutexLock lock(mutex_);
  if (!goes_on || report_.chunks == 0) return error;
  std::string message = error.message();
  if (error.code() == Code::kNoSpace) {
    uint64_t left = 0;
    for (const ChunkFile& chunk : missing_) left += chunk.bytes;
    message +=
        fmt::format(" (needs about {} more)", base::human_bytes(left - report_.bytes_copied));
  }
  const std::string_view then = error.code() == Code::kCorrupt
                                    ? "repair the source and run the same command again to go on"
                                    : "run the same command again to go on";
  return Status(error.code(), fmt::format("{}; {} of {} are copied, {}", message, progress_.chunks,
                                          base::counted(report_.chunks, "chunk"), then));
}

}  // namespace

Result<CopyReport> copy_dataset(const io::Origin& from, const std::string& source,
                                io::FileSystem& to, const std::string& target,
                                const CopyOptions& options) {
  if (options.threads < 0 || options.threads > base::kThreadsMax) {
    return fail(Code::kInvalid, "cp: {} threads, 0 to {} are possible", options.threads,
                base::kThreadsMax);
  }
  auto report = Copy(from, source, to, target, options).run();
  if (!report) return tl::unexpected(report.error().at("cp"));
  return report;
}

}  // namespace forebay::store
