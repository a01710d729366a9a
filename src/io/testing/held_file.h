// For tests: a file that a range server can send without reading it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/checksum.h"
#include "io/scratch_files.h"
#include "io/serve/held_range.h"
#include "io/serve/ranges_wanted.h"

namespace forebay::io::testing {

class HeldFile {
 public:
  explicit HeldFile(base::ByteVector content)
      : content_(std::move(content)),
        files_(ScratchFiles::open(::testing::TempDir() + "/held_file_" + std::to_string(::getpid()),
                                  Found::kRemove)
                   .value()) {
    EXPECT_TRUE(files_->write(kName, 0, content_).ok());
  }
  // Each range in two pieces; the last one in memory if it is short.
  std::vector<serve::HeldRange> find(const std::vector<serve::WantedRange>& ranges) const {
    std::vector<serve::HeldRange> held;
    for (const auto& [offset, length, again] : ranges) {
      const auto file = files_->file(kName).value();
      held.push_back({.pieces = {{file, offset, 1}, {file, offset + 1, length - 1}},
                      .crc32c = base::crc32c(base::Bytes(content_).subspan(offset, length))});
    }
    const auto& last = ranges.back();
    if (last.length < 100'000) {
      const auto bytes = base::Bytes(content_).subspan(last.offset, last.length);
      held.back().pieces = {{.bytes = {bytes.begin(), bytes.end()}}};
    }
    return held;
  }
  const base::ByteVector& content() const { return content_; }
  // From here on the file ends there.
  void cut(uint64_t size) { files_->cut(kName, size); }

 private:
  inline static const std::string kName = std::string(64, 'a');
  const base::ByteVector content_;
  const std::unique_ptr<ScratchFiles> files_;
};

}  // namespace forebay::io::testing
