// Names the machine that a benchmark's figures belong to.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "io/machine.h"

namespace forebay::bench {

// Returns the name of the processor and the number of usable cores, such as "AMD EPYC 9B45, 2
// cores".
inline std::string machine() {
  std::string name = "unknown processor";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    name = line.substr(line.find(':') + 2);
    break;
  }
  return fmt::format("{}, {} cores", name, io::usable_cores());
}

}  // namespace forebay::bench
