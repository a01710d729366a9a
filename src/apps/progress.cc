#include "progress.h"

#include <fmt/format.h>

#include <csignal>
#include <iostream>

#include "io/machine.h"

namespace forebay::apps {

namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void on_signal(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

ProgressPrinter::ProgressPrinter(bool json) : json_(json), terminal_(io::stderr_is_terminal()) {}

bool ProgressPrinter::is_due(double seconds) {
  const double every = json_ ? 1.0 : terminal_ ? 0.1 : 5.0;
  if (seconds - shown_seconds_ < every) return false;
  shown_seconds_ = seconds;
  return true;
}

void ProgressPrinter::show(const std::string& line) {
  if (json_) {
    std::cout << line << std::endl;
  } else if (terminal_) {
    std::cerr << "\r\x1b[K" << line << std::flush;
    open_line_ = true;
  } else {
    std::cerr << line << std::endl;
  }
}

void ProgressPrinter::end() {
  if (open_line_) std::cerr << "\r\x1b[K" << std::flush;
}

double rate(uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

std::string time_left(uint64_t amount, double speed) {
  if (speed <= 0) return "?";
  const auto left = static_cast<uint64_t>(static_cast<double>(amount) / speed);
  return fmt::format("{}:{:02}:{:02}", left / 3600, left / 60 % 60, left % 60);
}

const std::atomic<bool>* stop_on_signal() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return &stop_requested;
}

}  // namespace forebay::apps
