#include "prep/wire/field_text.h"

#include <algorithm>

namespace forebay::prep {

void FieldVisitor::refuse(std::string_view what) {
  if (!status_.ok()) return;
  const std::string_view place = place_.empty() ? "its text" : std::string_view(place_);
  status_ = base::fail(base::Code::kInvalid, "job: {} {}", place, what);
}

// A step is read and drawn by a function that calls itself for the steps in it.
bool FieldVisitor::enter_steps(size_t count) {
  if (depth_ == base::kJobStepDepthMax) {
    refuse(fmt::format("is a list of steps in more than {} others", base::kJobStepDepthMax - 1));
  } else if (count > base::kJobStepsMax - steps_) {
    refuse(fmt::format("would make more than {} steps", base::kJobStepsMax));
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
                     json(name.substr(0, base::kMessageTextBytesMax))
                         .dump(-1, ' ', true, json::error_handler_t::replace)));
}

void FieldReader::refuse_others(const json& from, const std::vector<std::string_view>& known) {
  if (!status().ok() || from.size() == known.size()) return;
  for (const auto& [name, value] : from.items()) {
    if (std::ranges::find(known, name) == known.end()) refuse_member(name);
  }
}

}  // namespace forebay::prep
