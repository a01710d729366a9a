// For tests: the PNG and WebP files of tests/golden/image_files.txt with the digest of their
// pixels.
#pragma once

#include <map>

#include "image/testing/image_samples.h"

namespace forebay::image {

struct GoldenFile {
  Size size;
  std::string digest;
  base::ByteVector bytes;
};

inline const std::map<std::string, GoldenFile>& golden_files() {
  static const auto all = [] {
    std::map<std::string, GoldenFile> out;
    for (auto& line : golden_lines("image_files.txt")) {
      std::string name;
      std::string hex;
      GoldenFile file;
      line >> name >> file.size.width >> file.size.height >> file.digest >> hex;
      file.bytes = from_hex(hex);
      out[name] = file;
    }
    return out;
  }();
  return all;
}

}  // namespace forebay::image
