// What a prep server answers besides batches: short texts, as JSON. Pure codec.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::prep {

using base::Result;

// To a job.
struct JobAnswer {
  std::string job;           // its name
  uint32_t keeps = 0;        // how many finished steps the prep server can keep in memory,
  uint32_t keeps_files = 0;  // and how many as files
  // Where the prep server leaves batches as files, as an absolute path; empty: it sends all of
  // them.
  std::string folder = {};
  // The name of a file in the folder that nobody else's folder can have. Whoever finds it there
  // sees the prep server's files.
  std::string mark = {};
  bool operator==(const JobAnswer&) const = default;
};

// To a step that was asked for as a file.
struct FileAnswer {
  std::string name;  // in the folder
  uint64_t bytes = 0;
  bool operator==(const FileAnswer&) const = default;
};

std::string encode(const JobAnswer& answer);
std::string encode(const FileAnswer& answer);
// Read texts of which nothing is known. Errors: kCorrupt, naming the place, when encode() cannot
// have written it.
Result<JobAnswer> decode_job_answer(std::string_view text);
Result<FileAnswer> decode_file_answer(std::string_view text);

}  // namespace forebay::prep
