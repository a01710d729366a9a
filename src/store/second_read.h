// A network may damage bytes on their way, so remote data counts as damaged only if a second read
// is damaged too.
#pragma once

#include "base/status.h"

namespace forebay::store {

// Calls `read`, which returns a Status or a Result. Calls it a second time if the bytes come over a
// network and the first call returned kCorrupt.
template <class Read>
auto with_second_read(bool is_remote, Read read) -> decltype(read()) {
  auto outcome = read();
  if (!is_remote || base::status_of(outcome).code() != base::Code::kCorrupt) return outcome;
  return read();
}

}  // namespace forebay::store
