// Which steps a pipeline prepares, and in which order: whole epochs one after the other, perhaps
// without the steps that others prepare, or single requested steps.
#pragma once

#include <cstdint>
#include <optional>

namespace forebay::feed {

// Steps of an epoch that follow each other; they are planned together.
struct StepRun {
  uint64_t epoch = 0;
  uint64_t first = 0;
  uint64_t end = 0;  // after the last one
  bool operator==(const StepRun&) const = default;
};

// Leaves out steps of a feed, because others prepare them. Any thread may call anything.
class StepFilter {
 public:
  virtual ~StepFilter() = default;
  // Whether the feed prepares this step. The feed asks once for each step, in order, shortly before
  // it would begin the step; after a new start, or an error, it asks again.
  virtual bool takes(uint64_t epoch, uint64_t step) = 0;
  // Called when this step, and all earlier ones that the feed prepares, are ready. It must not call
  // the feed.
  virtual void made(uint64_t epoch, uint64_t step) = 0;
};

// Any thread may call anything.
class StepSchedule {
 public:
  virtual ~StepSchedule() = default;
  // Whether other steps come after this run, now or later.
  virtual bool goes_on(const StepRun& run) const = 0;
  // The run after this one; waits until there is one. Nothing after stop().
  virtual std::optional<StepRun> next(const StepRun& run) = 0;
  // The pipeline ends: next() must not wait any more.
  virtual void stop() {}
};

}  // namespace forebay::feed
