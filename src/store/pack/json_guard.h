// Turns the exceptions that nlohmann throws for unexpected JSON into errors. Only .cc files include
// this, because nlohmann's header is large.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace forebay::store {

// Returns the result of read(); kCorrupt if read() met unexpected JSON.
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
