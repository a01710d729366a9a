// How a host names to a near side what it asks for.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::prep {

// A job's text is sent here with POST. The answer is the job's name, in hexadecimal digits.
inline constexpr std::string_view kJobsPath = "/prep/jobs";

// A step of a job, which is sent as encode_batch() makes it.
struct StepPath {
  std::string job;
  uint64_t epoch = 0;
  uint64_t step = 0;
};
inline std::string text_of(const StepPath& path) {
  return fmt::format("/prep/{}/{}/{}", path.job, path.epoch, path.step);
}

}  // namespace forebay::prep
