// A prep server's answers that are no batches: short JSON texts. Pure codec.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::prep {

using base::Result;

// The answer to a job.
struct JobAnswer {
  std::string job;           // the job's name
  uint32_t keeps = 0;        // how many finished steps the prep server can keep in memory
  uint32_t keeps_files = 0;  // how many more it can keep as files
  // The absolute path of the folder where the prep server leaves batches as files; empty: it sends
  // all batches.
  std::string folder = {};
  // The name of a file that only the prep server's folder has. A host that finds this file in
  // `folder` sees the prep server's files.
  std::string mark = {};
  bool operator==(const JobAnswer&) const = default;
};

// The answer to a request for a step as a file.
struct FileAnswer {
  std::string name;  // within the folder
  uint64_t bytes = 0;
  bool operator==(const FileAnswer&) const = default;
};

std::string encode(const JobAnswer& answer);
std::string encode(const FileAnswer& answer);
// Decode untrusted texts. Errors: kCorrupt, naming the place, if encode() cannot have written the
// text.
Result<JobAnswer> decode_job_answer(std::string_view text);
Result<FileAnswer> decode_file_answer(std::string_view text);

}  // namespace forebay::prep
