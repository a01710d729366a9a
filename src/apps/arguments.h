// What the two programs' command lines share. Exit codes: docs/errors.md.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace forebay::apps {

inline constexpr int kExitFailed = 1;  // or damage was found
inline constexpr int kExitWrongUsage = 2;
inline constexpr int kExitNotReached = 3;
inline constexpr int kExitStopped = 130;  // as a shell says of Ctrl-C

// For unsigned options: CLI11 itself takes "-1" for the largest number.
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
