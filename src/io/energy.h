// The energy that the machine's processors have used.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace forebay::io {

// Counts what was used since it was made. One thread at a time may use it.
class EnergyMeter {
 public:
  // The model, for where Linux gives this process no counters: what a core takes while this
  // process keeps it busy.
  static constexpr double kModelWatts = 10;

  struct Used {
    double cpu_s = 0;   // CPU time of this process
    double joules = 0;  // of all of the machine's processors, or of the model
    bool is_model = false;
  };

  // `folder` has the counters of Linux's powercap framework (RAPL), one folder for each processor.
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");
  // Counters begin again at 0 after some minutes, which is noticed where this is called more often.
  Used used();

 private:
  struct Counter {
    uint64_t last_uj = 0;
    uint64_t range_uj = 0;  // where it begins again
  };

  std::map<std::string, Counter> counters_;  // by the path of the file; only readable ones
  double counted_uj_ = 0;
  const int64_t cpu_ns_before_;
};

}  // namespace forebay::io
