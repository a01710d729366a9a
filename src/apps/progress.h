// How far a command is, shown while it runs, and the request to stop it.
#pragma once

#include <atomic>
#include <string>

namespace forebay::apps {

// On a terminal it rewrites one line, elsewhere it prints a line every few seconds, both to
// standard error. For programs it prints lines of JSON to standard output, at most one a second.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool json);

  // Whether a line is wanted now, `seconds` after the command began. It counts as shown then.
  bool is_due(double seconds);
  void show(const std::string& line);
  // Removes the line from the terminal.
  void end();

 private:
  const bool json_;
  const bool terminal_;
  bool open_line_ = false;
  double shown_seconds_ = 0;
};

// Gives `amount` for each second, and 0 where no time has passed.
double rate(uint64_t amount, double seconds);
// How long `amount` more takes at this speed, as hours:minutes:seconds, or "?" without a speed.
std::string time_left(uint64_t amount, double speed);

// Makes Ctrl-C and SIGTERM ask for a clean stop; a second one ends the process at once. The flag
// that is returned becomes true then.
const std::atomic<bool>* stop_on_signal();

}  // namespace forebay::apps
