// Whether an annotation in COCO's format makes sense: python/forebay/data/coco.py takes what passes
// here.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"

namespace forebay::store {

// `annotation` is an object. kInvalid names the annotation and what is wrong.
base::Status check_annotation(const nlohmann::json& annotation);
// Gives a whole number of 64 bits; kInvalid for anything else. `what` begins the message.
base::Result<int64_t> whole_of(std::string_view what, const nlohmann::json& value);
// A value in a message, shortened.
std::string shown(const nlohmann::json& value);

}  // namespace forebay::store
