// Brings samples into their slots of a batch: takes their bytes from the groups in memory, checks
// and prepares them, and replaces bad samples.
#pragma once

#include "feed/batch/state.h"
#include "feed/make/slot_writer.h"
#include "feed/read/reading.h"

namespace forebay::feed {

// Counts the memory of files, and of images in their own sizes, before they are made.
class Reservation {
 public:
  virtual ~Reservation() = default;
  // Waits until there is room. Errors: kCancelled after a stop.
  virtual Status reserve(uint64_t bytes) = 0;
  // Says that nothing more will be reserved. Calling it again changes nothing.
  virtual void end() = 0;
  // Counts bytes without waiting.
  virtual void add(uint64_t bytes) = 0;
};

// A slot to fill.
struct Task {
  uint64_t position = 0;  // belongs to this rank
  Slot slot;
  // The outcome. Errors: kIo and others that concern more than a single sample; kCorrupt when no
  // good sample was found to replace a bad one; kCancelled.
  Status status = {};
  std::optional<BadSample> bad = {};  // the position's own sample, if it was bad
};

// One thread at a time may use it. The constructor's arguments must outlive the object.
class SampleMaker {
 public:
  // A call of make() has at most `tasks_max` tasks.
  SampleMaker(const store::Dataset& dataset, const FeedOptions& options, size_t tasks_max,
              Trace& trace, const Trace::Track& track);

  // Works on tasks of an epoch in order, several at once; with `on_gpu` the GPU decodes. After a
  // failure the remaining tasks only release their groups.
  void make(EpochData& epoch, ReadingStage& reading, std::span<Task> tasks, bool on_gpu,
            Reservation& room);
  // Fills a slot that has no sample.
  Status leave_empty(const Slot& slot, uint64_t sample, uint64_t drawn_for) {
    return writer_.clear(slot, sample, drawn_for);
  }

  // Only reads of single samples, without the groups that were loaded.
  uint64_t bytes_read() const { return bytes_read_ + writer_.bytes_read(); }
  uint64_t reads() const { return reads_ + writer_.reads(); }
  uint64_t made_on_gpu() const { return writer_.made_on_gpu(); }

 private:
  // A task on its way; its group stays in memory until it is finished.
  struct Begun {
    Task* task = nullptr;
    size_t load = 0;  // index in EpochData::loads
    uint64_t sample = 0;
    uint64_t drawn_for = 0;
    int32_t label = -1;
    uint64_t bytes = 0;          // reserved
    base::ByteVector file = {};  // its bytes, if they were not in memory with the group
    Status unusable = {};        // why there is no request for it
  };

  Status wait(ReadingStage& reading, const EpochData& epoch, size_t load) const;
  Status begin(const EpochData& epoch, size_t load, uint64_t at, Task* task);
  Result<base::Bytes> find(const StretchBytes& bytes, const store::Location& location,
                           Begun* begun);
  Result<base::Bytes> find(const LoadedGroup& data, const SlicedSample& sample,
                           const store::Location& location, Begun* begun);
  base::Bytes find_map(const StretchBytes& bytes, uint64_t sample, const store::Location& image);
  Result<base::Bytes> checked(base::Bytes file, const store::Location& location, Begun* begun);
  Result<base::Bytes> read(const store::Location& location, base::ByteVector* file);
  bool finish(EpochData& epoch, ReadingStage& reading, bool on_gpu, Reservation& room,
              bool last = false);
  Status reserve(Reservation& room);
  Status settle(const EpochPlan& plan, const Begun& begun, Status status, Reservation& room);
  Status replace(const EpochPlan& plan, const Begun& begun, Reservation& room);
  base::Random random_of(const EpochPlan& plan, const Begun& begun) const {
    return augmentation(options_.seed, plan.epoch, begun.drawn_for);
  }
  BadSample describe(uint64_t sample, const Status& reason) const;

  const store::Dataset& dataset_;
  const FeedOptions& options_;
  Trace& trace_;
  const Trace::Track track_;
  SlotWriter writer_;
  std::vector<Begun> begun_;
  uint64_t begun_bytes_ = 0;           // of the files in begun_
  std::vector<SlotRequest> requests_;  // one for each usable sample of begun_
  base::ByteVector file_;              // a replacement's file; its memory is kept
  std::vector<base::Bytes> parts_;
  io::ReadOptions read_options_;  // for the reads of one call of make()
  uint64_t bytes_read_ = 0;
  uint64_t reads_ = 0;
};

}  // namespace forebay::feed
