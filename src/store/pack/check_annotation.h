// Checks an annotation in COCO's format. python/forebay/data/coco.py accepts everything that
// passes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace forebay::store {

// `annotation` is a JSON object. Error: kInvalid, which names the annotation and what is wrong.
base::Status check_annotation(const nlohmann::json& annotation);
// Returns a whole number of 64 bits; kInvalid for anything else. `what`: the value's name, for the
// message.
base::Result<int64_t> whole_of(std::string_view what, const nlohmann::json& value);
// Returns a value as text for a message, shortened.
std::string shown(const nlohmann::json& value);

}  // namespace forebay::store
