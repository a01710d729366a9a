#include "train/run/log.h"

#include <cstdio>

#include "io/machine.h"

namespace forebay::train {

Result<Log> Log::open(io::FileSystem& fs, const std::string& path) {
  Log log;
  log.start_ns_ = io::monotonic_ns();
  log.terminal_ = io::stderr_is_terminal();
  if (path.empty()) return log;
  ASSIGN_OR_RETURN(log.file_, fs.append_to(path));
  return log;
}

void Log::event(const std::string& event, nlohmann::json fields) {
  if (!file_) return;
  fields["event"] = event;
  fields["s"] = static_cast<double>(io::monotonic_ns() - start_ns_) / 1e9;
  const auto replace = nlohmann::json::error_handler_t::replace;
  const Status status =
      file_->append(base::as_bytes(fields.dump(-1, ' ', false, replace) + "\n")).at("--log");
  if (!status.ok()) {
    warn(status.message() + "; the run goes on without its log");
    file_.reset();
  }
}

void Log::say(const std::string& line) {
  if (!rank_) print(line);
}

void Log::warn(const std::string& what) {
  print(rank_ ? fmt::format("warning: rank {}: {}", *rank_, what) : "warning: " + what);
}

void Log::print(const std::string& line) {
  std::fprintf(stderr, "%s%s\n", open_line_ ? "\r\033[K" : "", line.c_str());
  open_line_ = false;
}

void Log::progress(const std::string& line) {
  if (!terminal_ || rank_) return say(line);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  open_line_ = true;
}

}  // namespace forebay::train
