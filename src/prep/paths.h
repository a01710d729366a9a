// How a host names to a near side what it asks for.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::prep {

// A job's text is sent here with POST. The answer is a JobAnswer (answers.h).
inline constexpr std::string_view kJobsPath = "/prep/jobs";

// What a host wants of a step.
enum class Wish : uint8_t {
  kBytes,  // its batch, as encode_batch() makes it
  kFile,  // the same in a file of the near side's folder: a FileAnswer, or the batch where the near
          // side could not write it
  kOver,  // the host has read the file
};
inline std::string_view suffix_of(Wish wish) {
  switch (wish) {
    case Wish::kBytes:
      return "";
    case Wish::kFile:
      return "/file";
    case Wish::kOver:
      return "/over";
  }
  return "";
}

// A step of a job.
struct StepPath {
  std::string job;
  uint64_t epoch = 0;
  uint64_t step = 0;
  Wish wish = Wish::kBytes;
};
inline std::string text_of(const StepPath& path) {
  return fmt::format("/prep/{}/{}/{}{}", path.job, path.epoch, path.step, suffix_of(path.wish));
}

}  // namespace forebay::prep
