// Threads that prepare batches from one position on, epoch after epoch, a few ahead of the
// consumer. To go on elsewhere, destroy it and open another.
#pragma once

#include "feed/batch_pool.h"
#include "feed/gpu_share.h"
#include "feed/sample_maker.h"

namespace forebay::feed {

// A batch as the consumer gets it.
struct Prepared {
  std::shared_ptr<const Batch> batch;
  std::vector<BadSample> bad;  // in the order of their positions
};

// One consumer thread calls everything here. What open() is given outlives it, but not the pool.
class Pipeline {
 public:
  struct Start {
    uint64_t epoch = 0;
    uint64_t step = 0;  // below Share::steps()
    bool operator==(const Start&) const = default;
  };

  // kNoMemory when the options cannot work within memory_bytes_max.
  static Result<std::unique_ptr<Pipeline>> open(const io::FileSystem& fs,
                                                const store::Dataset& dataset,
                                                const FeedOptions& options, const Planner& planner,
                                                const BatchPool::Shape& shape, const Start& start,
                                                Trace& trace);
  // Ends all work at once and waits for the threads.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Waits for what next() would wait for, at most that long; false when it is not there yet.
  bool wait_ms(int ms) EXCLUDES(mutex_);
  // The next batch. An error is final and ends the pipeline, but for kNoMemory because the batch
  // does not fit beside those that the user holds.
  Result<Prepared> next() EXCLUDES(mutex_);
  bool ended() const { return ended_; }
  // Adds what was done so far.
  void add_to(FeedStats* stats) const;

 private:
  // A batch in the making.
  struct Pending {
    std::shared_ptr<EpochPlan> plan;
    uint64_t step = 0;
    std::shared_ptr<Batch> batch;
    uint32_t taken = 0;                               // slots handed out
    uint64_t turns_end = 0;                           // after the numbers of their blocks
    uint32_t finished = 0;                            // slots filled
    std::vector<std::pair<uint32_t, BadSample>> bad;  // by slot
    Status status;                                    // of the first slot that failed
    uint32_t failed_slot = 0;
  };
  // Slots of a batch that one thread fills.
  struct Block {
    std::shared_ptr<Pending> pending;
    uint64_t turn = 0;  // its number
    uint32_t first = 0;
    uint32_t count = 0;
    std::vector<Task> tasks;
    std::vector<std::pair<uint32_t, BadSample>> bad;
    Status status;
    uint32_t failed_slot = 0;
  };

  // A block's share of the pool.
  class BlockRoom final : public Room {
   public:
    BlockRoom(Pipeline& pipeline, const Block& block) : pipeline_(pipeline), block_(block) {}
    Status reserve(uint64_t bytes) override;
    void end() override { pipeline_.end_turn(block_.turn); }
    void add(uint64_t bytes) override;

   private:
    Pipeline& pipeline_;
    const Block& block_;
  };

  Pipeline(const io::FileSystem& fs, const store::Dataset& dataset, const FeedOptions& options,
           const Planner& planner, const BatchPool::Shape& shape, const Start& start,
           std::shared_ptr<EpochPlan> first, uint64_t window_bytes, Trace& trace);
  void run(uint32_t thread) EXCLUDES(mutex_);
  bool take(Block* block) EXCLUDES(mutex_);
  void ask() REQUIRES(mutex_);
  bool answered() const REQUIRES(mutex_);
  bool front_is_ready() const REQUIRES(mutex_);
  std::optional<BatchPool::Shortage> front_shortage() const REQUIRES(mutex_);
  Status no_room(const BatchPool::Shortage& shortage) const;
  void end_turn(uint64_t turn) EXCLUDES(mutex_);
  bool has_room() const REQUIRES(mutex_);
  void begin_batch() REQUIRES(mutex_);
  void fill(SampleMaker& maker, Block* block);
  Status begin_tasks(SampleMaker& maker, Block* block) const;
  void finish(Block* block) EXCLUDES(mutex_);

  const io::FileSystem& fs_;
  const store::Dataset& dataset_;
  const FeedOptions& options_;
  const Planner& planner_;
  Trace& trace_;
  const size_t sample_bytes_;
  const bool varies_;  // whether batches have images of their own sizes, or files
  const uint64_t batch_bytes_max_;
  const uint32_t batch_size_;
  uint32_t block_size_ = 1;
  bool ended_ = false;
  std::shared_ptr<BatchPool> pool_;
  Window window_;

  base::Mutex mutex_;
  base::CondVar work_;  // for the threads
  base::CondVar done_;  // for the consumer
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool beginning_ GUARDED_BY(mutex_) = false;  // a thread makes the next batch
  bool no_memory_ GUARDED_BY(mutex_) = false;  // it found none for it
  bool complete_ GUARDED_BY(mutex_) = false;   // there is no next batch: it ends with this epoch
  uint64_t asked_ GUARDED_BY(mutex_) = 0;      // times that the consumer asked for a batch
  bool waited_ GUARDED_BY(mutex_) = false;     // it has waited for the next one
  Status plan_status_ GUARDED_BY(mutex_);      // why there is no next batch
  uint64_t next_step_ GUARDED_BY(mutex_) = 0;
  uint64_t next_turn_ GUARDED_BY(mutex_) = 0;
  std::deque<std::shared_ptr<Pending>> pending_ GUARDED_BY(mutex_);
  std::shared_ptr<Pending> current_ GUARDED_BY(mutex_);  // the one with slots to hand out

  GpuShare gpu_share_;
  std::atomic<uint64_t> bytes_read_ = 0;
  std::atomic<uint64_t> made_on_gpu_ = 0;
  std::atomic<int64_t> prepare_ns_ = 0;
  std::atomic<int64_t> idle_ns_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace forebay::feed
