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
  // Nothing is printed any more.
  void be_quiet() { is_quiet_ = true; }
  // Prints a line that no later line overwrites.
  void say(const std::string& line);
  // Prints a line that the next one overwrites where standard error is a terminal.
  void progress(const std::string& line);

 private:
  std::unique_ptr<io::WritableFile> file_;
  int64_t start_ns_ = 0;
  bool terminal_ = false;
  bool open_line_ = false;
  bool is_quiet_ = false;
};

}  // namespace forebay::train
