// Checks an annotation in COCO's format. python/forebay/data/coco.py accepts everything that
// passes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "base/status.h"
#include "image/codec/decode.h"

namespace forebay::store {

// `annotation` is a JSON object. Error: kInvalid, which names the annotation and what is wrong.
base::Status check_annotation(const nlohmann::json& annotation);
// Returns the value of an object's key, or `missing` if there is none or it is null.
nlohmann::json value_or(const nlohmann::json& one, const char* name, nlohmann::json missing);
// Returns the size of the image that run-lengths were made for; nothing for polygons, and for
// run-lengths that do not say it. kInvalid if it is not two whole numbers.
base::Result<std::optional<image::Size>> size_of_runs(const nlohmann::json& segmentation);
// Returns a whole number of 64 bits, which may be written as 7.0, true or false; kInvalid for
// anything else. `what`: the value's name, for the message.
base::Result<int64_t> whole_of(std::string_view what, const nlohmann::json& value);
// Returns a value as text for a message, shortened.
std::string shown(const nlohmann::json& value);

}  // namespace forebay::store
