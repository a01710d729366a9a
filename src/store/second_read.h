// A network may change bytes on their way, so bytes from there are damaged only if they are damaged
// when they are read a second time, too.
#pragma once

#include "base/status.h"

namespace forebay::store {

// Calls `read`, which gives a Status or a Result, and calls it once more where it gives kCorrupt
// and the bytes come over a network.
template <class Read>
auto with_second_read(bool is_remote, Read read) -> decltype(read()) {
  auto outcome = read();
  if (!is_remote || base::status_of(outcome).code() != base::Code::kCorrupt) return outcome;
  return read();
}

}  // namespace forebay::store
