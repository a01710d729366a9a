// The exit codes (docs/errors.md) and the option checks that forebay and forebay-train share.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace forebay::apps {

inline constexpr int kExitFailed = 1;  // something failed, or damage was found
inline constexpr int kExitWrongUsage = 2;
inline constexpr int kExitNotReached = 3;
inline constexpr int kExitStopped = 130;  // what a shell reports after Ctrl-C

// Accepts whole numbers from 0 to 2^64 - 1. CLI11 alone would read "-1" as the largest number.
inline CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole ? std::string() : text + " is not a whole number from 0 to 2^64 - 1";
      },
      "");
}

}  // namespace forebay::apps
