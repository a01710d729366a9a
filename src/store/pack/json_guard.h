// Reads JSON that comes from a disk: nlohmann throws where something does not fit, and here its
// exceptions become values again. Only .cc files include this, because nlohmann's header is large.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace forebay::store {

// Gives what read() gives; kCorrupt where read() met JSON that it did not expect.
template <class T, class Read>
base::Result<T> guarded(Read read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    return base::fail(base::Code::kCorrupt, "not the JSON expected: {}", error.what());
  }
}

// Reads a whole number from 0, inside guarded(). get<uint64_t>() would take -1 and 1e300 too.
inline uint64_t count_of(const nlohmann::json& value) {
  return value.get_ref<const nlohmann::json::number_unsigned_t&>();
}

}  // namespace forebay::store
