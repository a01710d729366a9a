// The files that a benchmark works on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace forebay::bench {

[[noreturn]] inline void stop(const std::string& why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::exit(1);
}

// Returns at most `limit` files below a folder, spread evenly over their sorted paths.
inline std::vector<base::ByteVector> read_files(const std::string& folder, size_t limit) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<base::ByteVector> files;
  const size_t step = std::max<size_t>(1, paths.size() / limit);
  for (size_t i = 0; i < paths.size() && files.size() < limit; i += step) {
    std::ifstream in(paths[i], std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace forebay::bench
