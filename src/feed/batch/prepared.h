// A batch as a pipeline returns it.
#pragma once

#include <memory>
#include <vector>

#include "feed/batch/batch.h"
#include "feed/batch/state.h"

namespace forebay::feed {

struct Prepared {
  std::shared_ptr<const Batch> batch;  // null: all other steps of the epoch are left out
  std::vector<BadSample> bad;          // in the order of their positions
};

}  // namespace forebay::feed
