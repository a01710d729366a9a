#include "feed/batch/steps_over.h"

#include <algorithm>

namespace forebay::feed {

using base::Code;
using base::fail;

Result<std::vector<uint64_t>> steps_over(const FeedState& state, const Steps& steps,
                                         uint64_t samples) {
  std::vector<uint64_t> out;
  if (!state.over.empty() && !steps.step_ends.empty()) {
    return fail(
        Code::kInvalid,
        "feed: the state lists steps that were consumed before their turn, which is impossible in "
        "an epoch with step_ends");
  }
  uint64_t before = state.position;
  for (const Positions& over : state.over) {
    // With another number of ranks the last step may end later, because it repeats samples.
    const auto first = steps.step_at(over.begin);
    const auto last = steps.step_at(over.end == samples ? steps.end : over.end);
    if (before >= over.begin || !first || !last || *first >= *last) {
      return fail(Code::kInvalid,
                  "feed: cannot leave out positions {} to {}, which the state says are over: they "
                  "must come after position {}, and be whole steps of {} positions before the "
                  "epoch's end {}; use the same batch_size x world_size as before",
                  over.begin, over.end, before, steps.global_batch, steps.end);
    }
    for (uint64_t step = *first; step < *last; ++step) out.push_back(step);
    before = over.end;
  }
  return out;
}

std::vector<Positions> positions_over(const std::vector<uint64_t>& over, const Steps& steps) {
  std::vector<Positions> out;
  for (const uint64_t step : over) {
    const uint64_t begin = steps.begin_of(step);
    if (out.empty() || out.back().end != begin) out.push_back({begin, begin});
    out.back().end = steps.end_of(step);
  }
  return out;
}

bool WithoutSteps::takes(uint64_t epoch, uint64_t step) {
  if (epoch == epoch_ && std::ranges::binary_search(over_, step)) return false;
  return more_ == nullptr || more_->takes(epoch, step);
}

void WithoutSteps::made(uint64_t epoch, uint64_t step) {
  if (more_ != nullptr) more_->made(epoch, step);
}

}  // namespace forebay::feed
