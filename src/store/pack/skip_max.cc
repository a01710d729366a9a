#include "store/pack/skip_max.h"

#include <charconv>
#include <cmath>

namespace forebay::store {

bool SkipMax::allows(uint64_t refused, uint64_t samples) const {
  const auto count = static_cast<double>(refused);
  return is_percent ? 100 * count <= value * static_cast<double>(samples) : count <= value;
}

base::Result<SkipMax> parse_skip_max(std::string_view text) {
  SkipMax out;
  out.is_percent = text.ends_with('%');
  const std::string_view number = text.substr(0, text.size() - (out.is_percent ? 1 : 0));
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), out.value);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  const bool is_allowed = out.is_percent ? out.value <= 100 : out.value == std::floor(out.value);
  if (!is_number || !std::isfinite(out.value) || out.value < 0 || !is_allowed) {
    return base::fail(base::Code::kInvalid,
                      "{} is neither a number of samples (200) nor a share of them (0.5%)", text);
  }
  return out;
}

std::string to_text(const SkipMax& skip_max) {
  return skip_max.is_percent ? fmt::format("{}%", skip_max.value)
                             : fmt::format("{:.0f}", skip_max.value);
}

}  // namespace forebay::store
