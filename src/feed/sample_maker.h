// Samples' way into their slots of a batch: their bytes out of the window, checked, prepared; bad
// ones replaced.
#pragma once

#include "feed/slot_writer.h"
#include "feed/window.h"

namespace forebay::feed {

// Where samples' images of their own sizes and files are counted before they are made.
class Room {
 public:
  virtual ~Room() = default;
  // Waits until there is room. kCancelled when it is time to stop.
  virtual Status reserve(uint64_t bytes) = 0;
  // There is nothing more to reserve; several calls are one.
  virtual void end() = 0;
  // Counts without waiting.
  virtual void add(uint64_t bytes) = 0;
};

// A slot to fill.
struct Task {
  uint64_t position = 0;  // one of this rank's
  Slot slot;
  // Afterwards. Errors: kIo and others that are no single sample's; kCorrupt when no good sample
  // takes the place; kCancelled.
  Status status = {};
  std::optional<BadSample> bad = {};  // when the position's own sample could not be used
};

// One thread at a time. What it is given outlives it.
class SampleMaker {
 public:
  // `tasks_max`: of a call of make().
  SampleMaker(const io::FileSystem& fs, const store::Dataset& dataset, const FeedOptions& options,
              size_t tasks_max, Trace& trace, const Trace::Track& track);

  // Works on tasks in order, several at once; on the GPU where told so. After one that fails the
  // others only give up their use of their groups.
  void make(const EpochPlan& plan, Window& window, std::span<Task> tasks, bool on_gpu, Room& room);
  // A slot without a sample.
  Status leave_empty(const Slot& slot, uint64_t sample) { return writer_.clear(slot, sample); }

  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t made_on_gpu() const { return writer_.made_on_gpu(); }

 private:
  // A task on its way; its group stays in memory until it is finished.
  struct Begun {
    Task* task = nullptr;
    Load* load = nullptr;
    uint64_t sample = 0;
    int32_t label = -1;
    uint64_t bytes = 0;          // reserved
    base::ByteVector file = {};  // when its bytes were not in the window
    Status unusable = {};        // why there is no request for it
  };

  Status wait(Window& window, const Load& load) const;
  Status begin(const EpochPlan& plan, Load& load, uint64_t at, Task* task);
  Result<base::Bytes> find(const Order::Place& place, const store::Location& location,
                           Begun* begun);
  Result<base::Bytes> read(const store::Location& location, base::ByteVector* file);
  bool finish(const EpochPlan& plan, Window& window, bool on_gpu, Room& room, bool last = false);
  Status reserve(Room& room);
  Status settle(const EpochPlan& plan, const Begun& begun, Status status, Room& room);
  Status replace(const EpochPlan& plan, const Begun& begun, Room& room);
  base::Random random_of(const EpochPlan& plan, uint64_t sample) const;
  BadSample describe(uint64_t sample, const Status& reason) const;

  const io::FileSystem& fs_;
  const store::Dataset& dataset_;
  const FeedOptions& options_;
  Trace& trace_;
  const Trace::Track track_;
  SlotWriter writer_;
  std::vector<Begun> begun_;
  std::vector<SlotRequest> requests_;  // of the usable ones of begun_, in their order
  base::ByteVector file_;              // of a replacement
  uint64_t bytes_read_ = 0;
};

}  // namespace forebay::feed
