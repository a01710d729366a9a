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
  // If the file exists, events are appended to it. An empty `path` means no file.
  static Result<Log> open(io::FileSystem& fs, const std::string& path);

  // Appends one line {"event": event, …fields, "s": seconds since the log was opened} to the file.
  void event(const std::string& event, nlohmann::json fields);
  // From now on prints only warnings, each with this rank: for processes other than the job's
  // first.
  void warn_only(uint32_t rank) { rank_ = rank; }
  // Prints a line that no later line overwrites.
  void say(const std::string& line);
  // Prints a warning that no later line overwrites.
  void warn(const std::string& what);
  // Prints a line; if standard error is a terminal, the next line overwrites it.
  void progress(const std::string& line);

 private:
  void print(const std::string& line);

  std::unique_ptr<io::WritableFile> file_;
  int64_t start_ns_ = 0;
  bool terminal_ = false;
  bool open_line_ = false;
  std::optional<uint32_t> rank_;  // set after warn_only()
};

}  // namespace forebay::train
