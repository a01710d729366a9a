// JSON that came from a disk: nlohmann reports what does not fit by exceptions, and here they
// become values again. Only for .cc files: the header behind it is large.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace forebay::store {

// What read() gives; kCorrupt where it met other JSON than it expected.
template <class T, class Read>
base::Result<T> guarded(Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    return base::fail(base::Code::kCorrupt, "not the JSON expected: {}", error.what());
  }
}

// A whole number from 0; inside guarded(). get<uint64_t>() would take -1 and 1e300 as well.
inline uint64_t count_of(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_unsigned_t&>();
}

}  // namespace forebay::store
