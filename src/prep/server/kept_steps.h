// The finished steps of a job that a prep server keeps until its host asks for them.
#pragma once

#include <deque>

#include "feed/batch/options.h"
#include "io/serve/range_server.h"

namespace forebay::prep {

// The caller sees to it that one thread at a time uses it.
class KeptSteps {
 public:
  using Step = std::pair<uint64_t, uint64_t>;  // epoch, and step in it
  struct Kept {
    Step step;
    io::serve::MadeAnswer answer;
    uint64_t bytes = 0;
  };

  explicit KeptSteps(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Drops the oldest ones where there is no room. False: it does not fit at all.
  bool keep(Kept kept);
  bool has(const Step& step) const;
  // The step, which is not kept any more; nothing where it was not kept.
  std::optional<Kept> take(const Step& step);
  // Whether there was one.
  bool drop_oldest();
  void drop_all();

 private:
  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  std::deque<Kept> kept_;  // the oldest first
};

// How many bytes the kept steps of a job may have, of its memory. The batches in work have the
// rest, so that there is always room for two of them (feed/make/pipeline_memory.h).
inline uint64_t kept_bytes_max(const feed::FeedOptions& options) {
  return options.memory_bytes_max / 2;
}
// How many bytes a step of these options has, about: images in their own sizes and files differ.
uint64_t usual_step_bytes(const feed::FeedOptions& options);
// How many of them fit.
uint32_t kept_steps_in(uint64_t bytes, uint64_t step_bytes);

}  // namespace forebay::prep
