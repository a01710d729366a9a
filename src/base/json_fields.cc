#include "base/json_fields.h"

#include <algorithm>

namespace forebay::base {

void FieldVisitor::refuse(std::string_view what) {
  if (!status_.ok()) return;
  const std::string_view place = place_.empty() ? "its text" : std::string_view(place_);
  status_ = fail(Code::kInvalid, "{}: {} {}", subject_, place, what);
}

// A step is read and drawn by a function that calls itself for the steps in it.
bool FieldVisitor::enter_steps(size_t count) {
  if (depth_ == kJobStepDepthMax) {
    refuse(fmt::format("is a list of steps in more than {} others", kJobStepDepthMax - 1));
  } else if (count > kJobStepsMax - steps_) {
    refuse(fmt::format("would make more than {} steps", kJobStepsMax));
  } else {
    ++depth_;
    steps_ += count;
    return true;
  }
  return false;
}

void FieldVisitor::check_number(double value) {
  if (!std::isfinite(value)) refuse("is not a finite number");
}

void FieldReader::refuse_member(std::string_view name) {
  refuse(fmt::format("has a member that Forebay does not know: {}",
                     nlohmann::json(name.substr(0, kMessageTextBytesMax))
                         .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

void FieldReader::refuse_others(const nlohmann::json& from,
                                const std::vector<std::string_view>& known) {
  if (!status().ok() || from.size() == known.size()) return;
  for (const auto& [name, value] : from.items()) {
    if (std::ranges::find(known, name) == known.end()) refuse_member(name);
  }
}

}  // namespace forebay::base
