// Reports the progress of a run: lines for people on standard error, and JSON lines in a file.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "io/file_system.h"

namespace forebay::train {

using base::Result;
using base::Status;

class Log {
 public:
  // With an empty `path` there is no file. An existing file is appended to.
  static Result<Log> open(io::FileSystem& fs, const std::string& path);

  // Appends one line {"event": event, …fields, "s": seconds since the log was opened}.
  Status event(const std::string& event, nlohmann::json fields);
  // Prints warnings alone from now on, with the rank of this process, which is not the job's first.
  void warn_only(uint32_t rank) { rank_ = rank; }
  // Prints a line that no later line overwrites.
  void say(const std::string& line);
  // The same for what the user must know in any case.
  void warn(const std::string& what);
  // Prints a line that the next one overwrites where standard error is a terminal.
  void progress(const std::string& line);

 private:
  void print(const std::string& line);

  std::unique_ptr<io::WritableFile> file_;
  int64_t start_ns_ = 0;
  bool terminal_ = false;
  bool open_line_ = false;
  std::optional<uint32_t> rank_;  // where warnings alone are printed
};

}  // namespace forebay::train
