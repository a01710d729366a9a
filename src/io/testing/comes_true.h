// For tests that wait for what other threads do.
#pragma once

#include <unistd.h>

#include <functional>

#include "io/machine.h"

namespace forebay::io::testing {

// Whether the condition comes true in time.
inline bool comes_true(const std::function<bool()>& condition, int64_t seconds = 10) {
  const int64_t deadline_ns = monotonic_ns() + seconds * 1'000'000'000;
  while (!condition() && monotonic_ns() < deadline_ns) ::usleep(1000);
  return condition();
}

}  // namespace forebay::io::testing
