// Steps of an epoch that were consumed before their turn (FeedState::over), as positions and as
// numbers, and how a feed leaves them out.
#pragma once

#include <memory>
#include <vector>

#include "feed/batch/state.h"
#include "feed/order/step_schedule.h"
#include "feed/order/steps.h"

namespace forebay::feed {

// The numbers of the state's steps that are over, ascending. An epoch has `samples` samples.
// Errors: kInvalid unless they ascend, come after the position and are whole steps; or if there are
// any in an epoch with Steps::step_ends.
Result<std::vector<uint64_t>> steps_over(const FeedState& state, const Steps& steps,
                                         uint64_t samples);
// The positions of these steps, which ascend.
std::vector<Positions> positions_over(const std::vector<uint64_t>& over, const Steps& steps);

// Leaves out steps of one epoch, and the steps that the filter `more` leaves out, which may be
// null.
class WithoutSteps final : public StepFilter {
 public:
  // `over` ascends.
  WithoutSteps(uint64_t epoch, std::vector<uint64_t> over, std::shared_ptr<StepFilter> more)
      : epoch_(epoch), over_(std::move(over)), more_(std::move(more)) {}

  bool takes(uint64_t epoch, uint64_t step) override;
  void made(uint64_t epoch, uint64_t step) override;

 private:
  const uint64_t epoch_;
  const std::vector<uint64_t> over_;
  const std::shared_ptr<StepFilter> more_;
};

}  // namespace forebay::feed
