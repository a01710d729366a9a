// The finished steps of a job that a prep server keeps until its host asks for them.
#pragma once

#include <deque>

#include "feed/batch/options.h"
#include "io/serve/range_server.h"

namespace forebay::prep {

// One thread at a time may use it.
class KeptSteps {
 public:
  using Step = std::pair<uint64_t, uint64_t>;  // epoch, and step in it
  struct Kept {
    Step step;
    io::serve::MadeAnswer answer;
    uint64_t bytes = 0;
  };

  explicit KeptSteps(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Keeps a step, and drops the oldest steps to make room. False if the step does not fit at all.
  bool keep(Kept kept);
  bool has(const Step& step) const;
  // Removes a kept step and returns it; nothing if the step is not kept.
  std::optional<Kept> take(const Step& step);
  // False if no step was kept.
  bool drop_oldest();
  void drop_all();

 private:
  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  std::deque<Kept> kept_;  // the oldest step first
};

// How many bytes of a job's memory its kept steps may take. The rest is for batches in progress, so
// that there is always room for two of them (feed/make/pipeline_memory.h).
inline uint64_t kept_bytes_max(const feed::FeedOptions& options) {
  return options.memory_bytes_max / 2;
}
// About how many bytes a step of these options has, if a batch has this number of slots; images in
// their own sizes and files differ.
uint64_t usual_step_bytes(const feed::FeedOptions& options, uint64_t slots);
// How many steps of step_bytes fit into `bytes`, at most base::kKeptStepsMax.
uint32_t kept_steps_in(uint64_t bytes, uint64_t step_bytes);

}  // namespace forebay::prep
