// The workers of a pack, which make the chunks and, at the end, the snapshot. pack.cc checks what
// may be packed and where.
#pragma once

#include "base/crew.h"
#include "io/machine.h"
#include "io/stop_flag.h"
#include "store/pack/chunk_builder.h"
#include "store/pack/journal.h"
#include "store/pack/pack.h"
#include "store/pack/pack_plan.h"
#include "store/snapshot_builder.h"

namespace forebay::store {

// Limits how many threads rewrite samples at the same time. Any thread may call anything.
class RewriteTurns {
 public:
  explicit RewriteTurns(size_t count) : free_(count) {}
  // Waits until fewer than `count` threads have a turn.
  void take() EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    while (free_ == 0) given_back_.wait(mutex_);
    --free_;
  }
  void give_back() EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    ++free_;
    given_back_.notify_one();
  }

 private:
  base::Mutex mutex_;
  base::CondVar given_back_;
  size_t free_ GUARDED_BY(mutex_);
};

// One run of pack on a listed source.
class PackJob {
 public:
  // The listed source lies at the origin `from`, and the dataset is made in `fs`. `is_alone` means
  // that the dataset's lock is held. Otherwise other runs of the same pack may write the same files
  // at the same time, and none of their files is removed.
  PackJob(const io::Origin& from, const Listing& listing, io::FileSystem& fs, std::string dataset,
          PackPlan plan, const PackIdentity& identity, const PackOptions& options, bool is_alone)
      : from_(from),
        listing_(listing),
        fs_(fs),
        dataset_(std::move(dataset)),
        plan_(std::move(plan)),
        identity_(identity),
        options_(options),
        is_alone_(is_alone),
        stop_(options.stop),
        records_(plan_.chunks()) {}

  Status prepare(Bytes encoded_listing);
  Status make_chunks();
  Result<PackReport> finish();
  // Adds to an error of these functions how far the pack is, if the same command would resume it.
  Status explain(const Status& error) const;

 private:
  Status resume(const Journal::Content& content);
  Result<bool> has_chunk(const ChunkRecord& record) const;
  void take_record(const ChunkRecord& record);
  Status clean();
  Status make_chunk(uint64_t number, base::Crew& crew, RewriteTurns& turns);
  Result<std::optional<ChunkBuilder::Finished>> build_chunk(uint64_t number, base::Crew& crew,
                                                            RewriteTurns& turns,
                                                            ChunkBuilder* builder);
  void note_sample(const SourceSample& sample, bool refused);
  void note_chunk(ChunkRecord record);
  PackReport sum() const;
  Status check_refused(const PackStats& stats) const;
  size_t reads_at_once() const;
  Result<ChunkIndex> read_index(const ChunkRecord& record) const;
  Status add_chunks(SnapshotBuilder* snapshot) const;

  const io::Origin& from_;
  const Listing& listing_;
  io::FileSystem& fs_;
  const std::string dataset_;
  const PackPlan plan_;
  const PackIdentity identity_;
  const PackOptions& options_;
  const bool is_alone_;
  std::unique_ptr<Journal> journal_;
  uint64_t chunks_resumed_ = 0;
  io::StopFlag stop_;  // also requested when a chunk fails
  const int64_t started_ns_ = io::monotonic_ns();

  base::Mutex mutex_;
  // The record of each chunk, by its number; empty until the chunk is made. After the workers have
  // ended, it is read without the mutex.
  std::vector<std::optional<ChunkRecord>> records_;
  PackProgress progress_ GUARDED_BY(mutex_);
  int64_t shown_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace forebay::store
