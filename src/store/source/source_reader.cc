#include "store/source/source_reader.h"

#include <algorithm>

#include "base/limits.h"

namespace forebay::store {

using base::ByteVector;
using base::Code;
using base::fail;
using base::MutexLock;

namespace {

// How much is read ahead. When half of it has been taken, many new reads begin at once. So the
// thread that begins them wakes seldom, and half of the reads stay in flight even if each takes
// long.
constexpr uint64_t kAheadBytes = 2 << 20;  // from a disk: small enough for the processor's cache
constexpr uint64_t kRemoteAheadBytes = 16 << 20;
constexpr uint64_t kAheadRuns = 128;
constexpr uint64_t kAheadSamples = 4096;
// Files of a shard are read at once if the gap between them has at most this many bytes. An extra
// read of a disk costs as much as a page, and an extra request to a server as much as many pages.
constexpr uint64_t kGapBytes = 4 << 10;
constexpr uint64_t kRemoteGapBytes = 64 << 10;
// The largest size of such a read.
constexpr uint64_t kRunBytes = 256 << 10;
constexpr uint64_t kRemoteRunBytes = 4 << 20;

tl::unexpected<Status> changed(const std::string& path, std::string_view how) {
  return fail(Code::kInvalid,
              "{}: the source changed while it was packed: {}; put it back to go on, or remove the "
              "dataset's folder and pack anew",
              path, how);
}

// Compares a file of a source with its entry in the listing.
Status check_unchanged(const SourceShard& listed, uint64_t bytes, int64_t modified_ns) {
  if (bytes != listed.bytes) {
    return changed(listed.path, fmt::format("{} bytes when listed, {} now", listed.bytes, bytes));
  }
  if (modified_ns != listed.modified_ns) return changed(listed.path, "it was written to since");
  return {};
}

// Opens a file of a source, which must not have changed since it was listed.
Result<std::shared_ptr<const io::ReadableFile>> open_listed(const io::Origin& origin,
                                                            const SourceShard& listed) {
  const std::string& path = listed.path;
  const io::Identity known{.size = listed.bytes, .modified_ns = listed.modified_ns};
  auto opened = origin.open(path, {.known = known});
  if (!opened && opened.error().code() == Code::kNotFound) {
    return changed(path, "it is gone");
  }
  if (!opened && opened.error().code() == Code::kUnsupported) {
    return changed(path, "it is not a regular file any more");
  }
  if (!opened) return tl::unexpected(advise(origin, path, opened.error()));
  const io::Identity& now = (*opened)->identity();
  RETURN_IF_ERROR(check_unchanged(listed, now.size, now.modified_ns));
  return std::shared_ptr<const io::ReadableFile>(std::move(*opened));
}

uint64_t bytes_max(FieldKind kind) {
  if (is_scalar(kind)) return base::kScalarBytesMax;
  return kind == FieldKind::kImage ? base::kImageBytesMax : base::kFieldBytesMax;
}

}  // namespace

SourceReader::SourceReader(base::Crew& crew, const io::Origin& origin, const Listing& listing,
                           Next next, std::stop_token stop)
    : origin_(origin),
      listing_(listing),
      next_(std::move(next)),
      is_remote_(origin.is_remote(listing.kind == SourceKind::kFolder ? listing.root
                                                                      : listing.shards[0].path)),
      queue_(
          std::make_unique<io::ReadQueue>(crew, io::ReadQueueOptions{.threads = 1},
                                          [this](io::DoneRead done) { finish(std::move(done)); })) {
  cancel_.emplace(std::move(stop), [this] { queue_->cancel(); });
  fill();
}

// The queue must end before the memory that its reads write to.
SourceReader::~SourceReader() {
  cancel_.reset();
  queue_.reset();
}

// Whether less than 1/`share` of the limits has been read ahead.
bool SourceReader::has_room(uint64_t share) {
  MutexLock lock(mutex_);
  return ahead_bytes_ < (is_remote_ ? kRemoteAheadBytes : kAheadBytes) / share &&
         runs_.size() < kAheadRuns / share && samples_.size() < kAheadSamples / share;
}

void SourceReader::fill() {
  if (!samples_.empty() && !has_room(2)) return;
  while (!ended_ && has_room(1)) {
    const SourceSample* const sample = next_();
    ended_ = sample == nullptr;
    if (!ended_) add(*sample);
  }
  start_last();
}

void SourceReader::add(const SourceSample& sample) {
  // Files are placed in the order in which they lie in a shard, so that one read can bring several.
  std::vector<size_t> order;
  for (size_t i = 0; i < sample.files.size(); ++i) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair(sample.files[i].shard, sample.files[i].offset);
  });
  Sample places(sample.files.size());
  for (const size_t i : order) places[i] = place(sample, sample.files[i]);
  samples_.push_back(std::move(places));
}

SourceReader::FileContent SourceReader::place(const SourceSample& sample, const SourceFile& file) {
  const uint64_t limit = bytes_max(listing_.schema.fields[file.field].kind);
  if (file.length > limit) {
    return {.refused =
                fail(Code::kTooBig, "{} bytes, more than the limit of {}", file.length, limit)};
  }
  if (file.shard == kNoShard) return {.text = &listing_.texts[file.offset]};
  if (!extends_last(file)) begin_run(sample, file);
  Run& run = *growing_;
  const uint64_t length = file.offset + file.length - run.offset;
  ahead_bytes_ += length - run.length;
  run.length = length;
  ++run.files;
  return {.run = &run, .offset = file.offset - run.offset, .length = file.length};
}

// Whether the file is the image of a sample of a folder source, which is a file of its own.
bool SourceReader::is_in_folder(const SourceFile& file) const {
  return listing_.kind == SourceKind::kFolder && file.field == 0;
}

bool SourceReader::extends_last(const SourceFile& file) const {
  if (growing_ == nullptr || is_in_folder(file)) return false;
  const uint64_t end = growing_->offset + growing_->length;
  return growing_->from.path == listing_.shards[file.shard].path && file.offset >= end &&
         file.offset - end <= (is_remote_ ? kRemoteGapBytes : kGapBytes) &&
         file.offset + file.length - growing_->offset <= (is_remote_ ? kRemoteRunBytes : kRunBytes);
}

void SourceReader::begin_run(const SourceSample& sample, const SourceFile& file) {
  start_last();
  Run run{.from = is_in_folder(file)
                      ? SourceShard{.path = io::join_path(listing_.root, sample.source_path),
                                    .bytes = file.length,
                                    .modified_ns = sample.modified_ns}
                      : listing_.shards[file.shard],
          .offset = file.offset};
  MutexLock lock(mutex_);
  growing_ = &runs_.emplace(next_run_++, std::move(run)).first->second;
}

void SourceReader::start_last() {
  if (growing_ == nullptr) return;
  Run& run = *std::exchange(growing_, nullptr);
  run.bytes.resize(run.length);
  queue_->start({.open = [this, &run] { return open(run.from); },
                 .ranges = {{run.offset, run.bytes}},
                 .tag = next_run_ - 1});
}

// Neighbouring samples of a shard share its open file.
Result<std::shared_ptr<const io::ReadableFile>> SourceReader::open(const SourceShard& from) {
  if (listing_.kind == SourceKind::kFolder) return open_listed(origin_, from);
  if (shard_ == nullptr || shard_->path() != from.path) {
    ASSIGN_OR_RETURN(shard_, open_listed(origin_, from));
  }
  return shard_;
}

void SourceReader::finish(io::DoneRead done) {
  MutexLock lock(mutex_);
  Run& run = runs_.at(done.tag);
  run.status = std::move(done.status);
  run.done = true;
  if (awaited_ == &run) landed_.notify_one();
}

std::vector<Result<ByteVector>> SourceReader::take() {
  fill();
  FOREBAY_CHECK(!samples_.empty());
  const Sample sample = std::move(samples_.front());
  samples_.pop_front();
  std::vector<Result<ByteVector>> contents;
  for (const FileContent& place : sample) contents.push_back(take_file(place));
  drop_taken();
  return contents;
}

Status SourceReader::wait_for(const Run& run) {
  MutexLock lock(mutex_);
  awaited_ = &run;
  while (!run.done) landed_.wait(mutex_);
  awaited_ = nullptr;
  return run.status;
}

// A server reports only at a read that a file differs from the listing, and its error does not know
// about packing. So this looks at the file again and returns an error about the source.
Status SourceReader::explain(const SourceShard& listed, const Status& error) const {
  if (!is_remote_ || (error.code() != Code::kNotFound && error.code() != Code::kIo)) return error;
  const auto now = origin_.stat(listed.path);
  if (now) {
    const Status compared = check_unchanged(listed, now->size, now->modified_ns);
    return compared.ok() ? error : compared;
  }
  return now.error().code() == Code::kNotFound ? changed(listed.path, "it is gone") : error;
}

Result<ByteVector> SourceReader::take_file(const FileContent& place) {
  if (place.text != nullptr) return ByteVector(place.text->begin(), place.text->end());
  if (place.run == nullptr) return tl::unexpected(place.refused);
  Run& run = *place.run;
  const Status status = wait_for(run);
  --run.files;
  if (!status.ok()) return tl::unexpected(explain(run.from, status));
  if (place.length == run.length) return std::move(run.bytes);
  const auto begin = run.bytes.begin() + static_cast<ptrdiff_t>(place.offset);
  return ByteVector(begin, begin + static_cast<ptrdiff_t>(place.length));
}

// Samples are taken in the order of their runs. Only the files of one sample may be in another
// order.
void SourceReader::drop_taken() {
  MutexLock lock(mutex_);
  while (!runs_.empty() && runs_.begin()->second.files == 0) {
    ahead_bytes_ -= runs_.begin()->second.length;
    runs_.erase(runs_.begin());
  }
}

}  // namespace forebay::store
