// Prepares the batches of a schedule, a few ahead of the consumer. To continue at another position,
// destroy the pipeline and open another with the same threads.
#pragma once

#include "feed/batch/prepared.h"
#include "feed/make/batch_pool.h"
#include "feed/make/sample_maker.h"
#include "feed/make/share_gpu.h"
#include "io/clock.h"

namespace forebay::feed {

// Threads that work for one pipeline after another.
struct Crews {
  base::Crew decoders;
  ReadingCrews reading;
};

// One consumer thread calls everything but stop(). The arguments of open() must outlive the
// pipeline.
class Pipeline {
 public:
  // Begins with the run `first`, which is not empty, and continues with the schedule's later runs.
  // `stop` ends the wait for data that the first plan needs from a network. Errors: kNoMemory when
  // the options cannot work within memory_bytes_max; those of Planner::plan().
  static Result<std::unique_ptr<Pipeline>> open(const store::Dataset& dataset,
                                                const FeedOptions& options, const Planner& planner,
                                                StepSchedule& schedule, const StepRun& first,
                                                ChunkIndexes& indexes, Crews& crews, Trace& trace,
                                                const io::Clock& clock,
                                                const std::stop_token& stop);
  // Stops, and waits until no thread works for the pipeline.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Waits at most `ms` milliseconds for the next batch. Returns whether next() would return it
  // without waiting.
  bool wait_ms(int ms) EXCLUDES(mutex_);
  // Returns the next batch. An error is final and ends the pipeline (ended()), except kNoMemory
  // when the batch would fit if the caller released others.
  Result<Prepared> next() EXCLUDES(mutex_);
  bool ended() const { return ended_; }
  // Ends all work at once, and the consumer's wait: from now on next() returns kCancelled. Any
  // thread may call it.
  void stop() EXCLUDES(mutex_);
  // Adds the figures of this pipeline so far.
  void add_to(FeedStats* stats) const;

 private:
  struct UnfinishedBatch {
    std::shared_ptr<EpochData> epoch;
    uint64_t step = 0;
    std::shared_ptr<Batch> batch;  // null: the end of an epoch whose last steps others prepare
    uint32_t taken = 0;            // slots handed out
    uint64_t blocks_end = 0;       // one more than the number of its last block
    uint32_t finished = 0;         // slots filled
    bool told = false;             // whether the filter was told that the batch is made
    std::vector<std::pair<uint32_t, BadSample>> bad;  // by slot
    Status status;                                    // of the first slot that failed
    uint32_t failed_slot = 0;
  };
  // Slots of a batch that one thread fills.
  struct Block {
    std::shared_ptr<UnfinishedBatch> of;
    uint64_t number = 0;  // from 0 in the pipeline
    uint32_t first = 0;
    uint32_t count = 0;
    std::vector<Task> tasks;
    std::vector<std::pair<uint32_t, BadSample>> bad;
    Status status;
    uint32_t failed_slot = 0;
  };

  // Reserves room in the pool for a block.
  class BlockReservation final : public Reservation {
   public:
    BlockReservation(Pipeline& pipeline, const Block& block) : pipeline_(pipeline), block_(block) {}
    Status reserve(uint64_t bytes) override;
    void end() override { pipeline_.end_block(block_.number); }
    void add(uint64_t bytes) override;

   private:
    Pipeline& pipeline_;
    const Block& block_;
  };

  Pipeline(const store::Dataset& dataset, const FeedOptions& options, const Planner& planner,
           StepSchedule& schedule, const BatchPool::Shape& shape,
           const std::shared_ptr<const EpochPlan>& first, uint64_t group_bytes_max,
           ChunkIndexes& indexes, Crews& crews, Trace& trace, const io::Clock& clock);
  void run(uint32_t thread) EXCLUDES(mutex_);
  bool take(Block* block) EXCLUDES(mutex_);
  void ask() REQUIRES(mutex_);
  bool answered() const REQUIRES(mutex_);
  bool front_is_ready() const REQUIRES(mutex_);
  std::optional<BatchPool::Shortage> front_shortage() const REQUIRES(mutex_);
  Status no_room(const BatchPool::Shortage& shortage) const;
  void end_block(uint64_t number) EXCLUDES(mutex_);
  bool has_room() const REQUIRES(mutex_);
  void begin_batch() REQUIRES(mutex_);
  bool go_to_next_step(EpochData& run, uint64_t* step);
  void tell_what_is_made() REQUIRES(mutex_);
  void fill(SampleMaker& maker, Block* block);
  Status begin_tasks(SampleMaker& maker, Block* block) const;
  void finish(Block* block) EXCLUDES(mutex_);

  const store::Dataset& dataset_;
  const FeedOptions& options_;
  const Planner& planner_;
  StepSchedule& schedule_;
  Crews& crews_;
  Trace& trace_;
  const io::Clock& clock_;
  const size_t sample_bytes_;
  const bool varies_;  // BatchPool::Shape::varies()
  const uint64_t batch_bytes_max_;
  const uint32_t batch_size_;
  uint32_t block_size_ = 1;
  bool ended_ = false;
  std::shared_ptr<BatchPool> pool_;
  const Slicer slicer_;
  ReadingStage reading_;

  base::Mutex mutex_;
  base::CondVar work_;  // for the threads
  base::CondVar done_;  // for the consumer
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool beginning_ GUARDED_BY(mutex_) = false;  // a thread is making room for the next batch
  bool no_memory_ GUARDED_BY(mutex_) = false;  // there was no memory for the next batch
  bool complete_ GUARDED_BY(mutex_) = false;   // all batches have begun; no run follows
  uint64_t asked_ GUARDED_BY(mutex_) = 0;      // how often the consumer asked for a batch
  bool waited_ GUARDED_BY(mutex_) = false;     // the consumer has waited for the next batch
  Status plan_status_ GUARDED_BY(mutex_);      // why there is no next batch
  // The step of reading_'s run that begins next; unset: the run's first step.
  std::optional<uint64_t> next_step_ GUARDED_BY(mutex_);
  bool next_is_taken_ GUARDED_BY(mutex_) = false;  // the filter has said that it takes next_step_
  uint64_t next_block_ GUARDED_BY(mutex_) = 0;
  std::deque<std::shared_ptr<UnfinishedBatch>> unfinished_ GUARDED_BY(mutex_);
  std::shared_ptr<UnfinishedBatch> current_ GUARDED_BY(mutex_);  // its slots are handed out now

  GpuShare gpu_share_;
  // Reads of single samples, which the reading stage does not count.
  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<uint64_t> reads_ = 0;
  std::atomic<uint64_t> made_on_gpu_ = 0;
  std::atomic<int64_t> prepare_ns_ = 0;
  std::atomic<int64_t> idle_ns_ = 0;
};

}  // namespace forebay::feed
