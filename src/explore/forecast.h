// What the rest of a run is expected to take, found by simulating it with the costs measured so
// far.
#pragma once

#include "explore/engine.h"

namespace forebay::explore {

struct Forecast {
  double seconds = 0;  // until the last task ends
  uint64_t memory_peak_bytes = 0;
  uint64_t tasks = 0;  // that run
  EngineStats stats;
};

// Runs a copy of an engine; tasks that are running begin anew. It ends early where a run could not
// go on (Action::kNoRoom). Scores are drawn from `seed`; choices that are decided add no further
// tasks.
Forecast forecast(Engine engine, Order order, uint64_t seed);

// How long a copy of an engine loads and computes again from now on, if it does this with the
// result that was made, and what it always does with later ones.
double again_s(Engine engine, const Event& made, RoomPlan plan);

// The order with the shortest forecast; the first of equal ones.
Order best_order(const Engine& engine, uint64_t seed);

}  // namespace forebay::explore
