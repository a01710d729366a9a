// Shows the progress of a command while it runs, and takes the request to stop it.
#pragma once

#include <atomic>
#include <string>

namespace forebay::apps {

// Prints progress to standard error: on a terminal it rewrites one line, elsewhere it adds a line
// every few seconds. With `json` it prints JSON lines to standard output, at most one a second.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(bool json);

  // Whether a line is due `seconds` after the command began. If so, the caller must show one.
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

// Returns `amount` per second, or 0 if no time has passed.
double rate(uint64_t amount, double seconds);
// Returns how long `amount` more takes at this speed, as hours:minutes:seconds; "?" if speed is 0.
std::string time_left(uint64_t amount, double speed);

// Returns a flag that Ctrl-C and SIGTERM set, to ask for a clean stop. A second signal ends the
// process at once.
const std::atomic<bool>* stop_on_signal();

}  // namespace forebay::apps
