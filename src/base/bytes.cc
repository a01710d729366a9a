#include "base/bytes.h"

#include <array>

namespace forebay::base {

std::string human_bytes(uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string counted(uint64_t number, std::string_view noun) {
  if (number == 1) return fmt::format("1 {}", noun);
  return fmt::format("{} {}{}", number, noun, noun.ends_with('s') ? "es" : "s");
}

}  // namespace forebay::base
